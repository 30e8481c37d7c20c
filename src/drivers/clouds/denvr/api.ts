/** The part of the Denvr API that we use, as far as we read it. Unknown fields and states are ignored. */
import { z } from 'zod'
import { fromNumber } from '../../../base/vendor-price.ts'

const wrapped = z.object({ result: z.unknown() })
/** Some answers are wrapped as `{ result }`. */
const unwrapped = <S extends z.ZodType>(shape: S) =>
  z.preprocess((answer) => {
    const parsed = wrapped.safeParse(answer)
    return parsed.success && parsed.data.result !== undefined ? parsed.data.result : answer
  }, shape)
const listOf = <S extends z.ZodType>(shape: S) =>
  unwrapped(z.object({ items: z.array(shape).nullable() }).transform(({ items }) => items ?? []))

/** The price of the whole machine per hour. */
const price = z.number().transform(fromNumber)

export const token = unwrapped(z.object({ accessToken: z.string().min(1), expireInSeconds: z.number().positive() }))

export const clusters = unwrapped(z.array(z.string().min(1)))

const configuration = z.object({
  id: z.number(),
  name: z.string().min(1),
  text_name: z.string().nullish(),
  /** Deprecated: `text_name` replaces it. */
  gpu_name: z.string().nullish(),
  gpus: z.number(),
  vcpus: z.number(),
  memory: z.number(),
  storage: z.number(),
  price,
  compute_network: z.string().nullish(),
})
export type Configuration = z.output<typeof configuration>
export const configurations = listOf(configuration)

const availability = z.object({
  configuration: z.string(),
  price: price.nullish(),
  available: z.boolean().nullish(),
  count: z.number().nullish(),
})
export type Availability = z.output<typeof availability>
export const availabilities = listOf(availability)

export const images = listOf(z.object({ name: z.string().min(1), distribution: z.string().nullish() }))

const server = z.object({
  id: z.string().min(1),
  /** The VPC of the server. */
  namespace: z.string().nullish(),
  cluster: z.string().min(1),
  /** The id or the name of a configuration. */
  configuration: z.string().nullish(),
  rpool: z.string().nullish(),
  gpu_type: z.string().nullish(),
  gpus: z.number().nullish(),
  vcpus: z.number().nullish(),
  memory: z.number().nullish(),
  storage: z.number().nullish(),
  ip: z.string().nullish(),
  privateIp: z.string().nullish(),
  status: z.string().nullish(),
})
export type Server = z.output<typeof server>
export const servers = listOf(server)
export const created = unwrapped(z.object({ id: z.string().min(1) }))

/** The body does not matter. */
export const anything = z.unknown()

const failure = z.object({ error: z.object({ message: z.string().nullish() }) })

export function messageOf(answer: unknown): string {
  return failure.safeParse(answer).data?.error.message ?? ''
}
