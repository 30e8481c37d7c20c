/** The part of the Lambda API that we use, as far as we read it. Unknown fields and states are ignored. */
import { z } from 'zod'

const region = z.object({ name: z.string() })

const instanceType = z.object({
  name: z.string(),
  gpu_description: z.string(),
  price_cents_per_hour: z.int().min(0),
  specs: z.object({
    vcpus: z.number(),
    memory_gib: z.number(),
    storage_gib: z.number(),
    gpus: z.number(),
  }),
})
export type InstanceType = z.output<typeof instanceType>

export const instanceTypes = z.object({ data: z.record(z.string(), z.unknown()) })
export const offeredType = z.object({ instance_type: instanceType, regions_with_capacity_available: z.array(region) })

const instance = z.object({
  id: z.string().min(1),
  name: z.string().nullish(),
  status: z.string(),
  ip: z.string().nullish(),
  private_ip: z.string().nullish(),
  region,
  instance_type: instanceType,
})
export type Instance = z.output<typeof instance>

/** An instance without a field that we need is still one of ours. */
const bareInstance = z.object({ id: z.string().min(1), name: z.string().nullish() })
export const instances = z.object({ data: z.array(z.union([instance, bareInstance])) })
export const oneInstance = z.object({ data: z.object({ status: z.string() }) })
export const launched = z.object({ data: z.object({ instance_ids: z.array(z.string().min(1)).min(1) }) })
export const terminated = z.object({ data: z.object({ terminated_instances: z.array(z.object({ id: z.string() })) }) })

const sshKey = z.object({ id: z.string().min(1), name: z.string(), public_key: z.string() })
export const sshKeys = z.object({ data: z.array(sshKey) })
export const addedSshKey = z.object({ data: sshKey })

const ruleset = z.object({ id: z.string().min(1), name: z.string() })
export const rulesets = z.object({ data: z.array(ruleset) })
export const createdRuleset = z.object({ data: ruleset })
/** The body does not matter. */
export const anything = z.unknown()

const failure = z.object({ error: z.object({ code: z.string() }) })

/** Reads the vendor's error code. undefined: the answer has none. */
export function codeOf(answer: unknown): string | undefined {
  const parsed = failure.safeParse(answer)
  return parsed.success ? parsed.data.error.code : undefined
}
