/** The part of the Latitude.sh API (JSON:API) that we use, as far as we read it. Unknown fields and states are ignored. */
import { z } from 'zod'
import { fromNumber } from '../../../base/vendor-price.ts'

const region = z.object({
  locations: z.object({ in_stock: z.array(z.string()).nullish() }).nullish(),
  pricing: z.object({ USD: z.object({ hour: z.number().transform(fromNumber).nullish() }).nullish() }).nullish(),
})

const plan = z.object({
  id: z.string().min(1),
  attributes: z.object({
    slug: z.string().min(1),
    specs: z.object({
      cpu: z.object({ type: z.string(), cores: z.number(), count: z.number() }),
      memory: z.object({ total: z.number() }),
      drives: z.array(z.object({ count: z.number(), size: z.string() })).nullish(),
      gpu: z
        .object({ count: z.number().nullish(), type: z.string().nullish(), interconnect: z.string().nullish() })
        .nullish(),
    }),
    regions: z.array(region).nullish(),
  }),
})
export type Plan = z.output<typeof plan>['attributes']

/** The vendor calls all fields of a plan optional. A plan that cannot be parsed is not sold. */
export const plans = z.object({
  data: z.array(z.unknown()).transform((all) => all.flatMap((one) => plan.safeParse(one).data ?? [])),
})

const server = z.object({
  id: z.string().min(1),
  attributes: z.object({
    hostname: z.string().nullish(),
    status: z.string().nullish(),
    primary_ipv4: z.string().nullish(),
    plan: z.object({ slug: z.string().nullish() }).nullish(),
    region: z.object({ site: z.object({ slug: z.string().nullish() }).nullish() }).nullish(),
  }),
})
export type Server = z.output<typeof server>

export const servers = z.object({ data: z.array(server) })
export const createdServer = z.object({ data: server })

const sshKey = z.object({
  id: z.string().min(1),
  attributes: z.object({ name: z.string().nullish(), public_key: z.string().nullish() }),
})
export type SshKey = z.output<typeof sshKey>
export const sshKeys = z.object({ data: z.array(sshKey) })
export const createdSshKey = z.object({ data: sshKey })

const userData = z.object({ id: z.string().min(1), attributes: z.object({ description: z.string().nullish() }) })
export type UserData = z.output<typeof userData>
export const userDatas = z.object({ data: z.array(userData) })
export const createdUserData = z.object({ data: userData })
/** The body does not matter. */
export const anything = z.unknown()

const failure = z.object({
  errors: z.array(z.object({ code: z.string().nullish(), detail: z.string().nullish() })),
})

/** Reads the vendor's reasons. */
export function errorsOf(answer: unknown): z.output<typeof failure>['errors'] {
  return failure.safeParse(answer).data?.errors ?? []
}
