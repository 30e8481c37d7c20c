/** The part of the Crusoe API that we use, as far as we read it. Unknown fields and states are ignored. */
import { z } from 'zod'

const vmType = z.object({
  product_name: z.string().min(1),
  cpu_cores: z.number(),
  memory_gb: z.number(),
  disk_gb: z.number(),
  num_gpu: z.number(),
  gpu_type: z.string(),
})
export type VmType = z.output<typeof vmType>
export const vmTypes = z.object({ items: z.array(vmType) })

export const capacities = z.object({
  items: z.array(z.object({ type: z.string().nullish(), location: z.string(), quantity: z.number() })),
})

const publicAddress = z.object({ address: z.string(), id: z.string() })
const addresses = z.object({
  public_ipv4: publicAddress.partial().nullish(),
  private_ipv4: z.object({ address: z.string() }).partial().nullish(),
})
export const vm = z.object({
  id: z.string().min(1),
  name: z.string(),
  type: z.string(),
  state: z.string().nullish(),
  network_interfaces: z.array(z.object({ ips: z.array(addresses).nullish() })).nullish(),
})
export type Vm = z.output<typeof vm>
export const vms = z.object({ items: z.array(vm), next_page_token: z.string().nullish() })

const operation = z.object({
  operation_id: z.string().min(1),
  state: z.string(),
  metadata: z.object({ id: z.string() }).partial().nullish(),
  result: z.object({ code: z.string(), message: z.string() }).partial().nullish(),
})
export type Operation = z.output<typeof operation>
/** Some answers wrap the operation. */
export const started = z.union([z.object({ operation }).transform((answer) => answer.operation), operation])
export const operations = z.object({ items: z.array(operation).nullish() })

const disk = z.object({ id: z.string().min(1), name: z.string(), attached_to: z.array(z.unknown()).nullish() })
export const disks = z.object({ items: z.array(disk) })

const quota = z.object({
  programmatic_name: z.string().nullish(),
  category: z.string().nullish(),
  available: z.number().nullish(),
})
export type Quota = z.output<typeof quota>
export const quotas = z.object({ quotas: z.array(quota).nullish() })

const network = z.object({
  id: z.string().min(1),
  location: z.string(),
  capacities: z.array(z.object({ slice_type: z.string(), quantity: z.number() })).nullish(),
})
export const networks = z.object({ items: z.array(network) })

const partition = z.object({ id: z.string().min(1), name: z.string() })
export const partitions = z.object({ items: z.array(partition) })
export const createdPartition = z.object({ id: z.string().min(1) })
/** The body does not matter. */
export const anything = z.unknown()

const failure = z.object({ code: z.string().nullish(), message: z.string().nullish(), reason: z.string().nullish() })

/** Reads the vendor's error code. */
export function codeOf(answer: unknown): string {
  return failure.safeParse(answer).data?.code ?? ''
}

/** Joins the code, reason and message of an answer. The code may be a mere number, with the reason in the message. */
export function reasonOf(answer: unknown): string {
  const { code, reason, message } = failure.safeParse(answer).data ?? {}
  return [code, reason, message].filter((text) => (text ?? '') !== '').join(' ')
}
