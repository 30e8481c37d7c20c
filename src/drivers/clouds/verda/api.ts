/** The part of the Verda API that we use, as far as we read it. Unknown fields and states are ignored. */
import { z } from 'zod'
import { fromDecimal, fromNumber } from '../../../base/vendor-price.ts'

/** The vendor sends prices as texts or as numbers. */
const price = z.union([z.string().transform(fromDecimal), z.number().transform(fromNumber)])
const size = z.object({ size_in_gigabytes: z.number() })

export const instanceType = z.object({
  instance_type: z.string().min(1),
  price_per_hour: price,
  currency: z.string().nullish(),
  cpu: z.object({ number_of_cores: z.number() }),
  gpu: z.object({ description: z.string(), number_of_gpus: z.number() }),
  memory: size,
})
export type InstanceType = z.output<typeof instanceType>
/** Entries are parsed one by one. */
export const entries = z.array(z.unknown())

export const availabilities = z.array(z.object({ location_code: z.string(), availabilities: z.array(z.string()) }))

export const volumeTypes = z.array(
  z.object({ type: z.string(), price: z.object({ price_per_month_per_gb: price, currency: z.string().nullish() }) }),
)

export const images = z.array(z.object({ image_type: z.string() }))

export const instance = z.object({
  id: z.string().min(1),
  status: z.string(),
  description: z.string().nullish(),
  ip: z.string().nullish(),
  price_per_hour: price,
  cpu: z.object({ number_of_cores: z.number() }),
  gpu: z.object({ description: z.string(), number_of_gpus: z.number() }),
  memory: size,
  os_volume_id: z.string().nullish(),
})
export type Instance = z.output<typeof instance>
/** An instance without a field that we need is still one of ours. */
const bareInstance = z.object({ id: z.string().min(1), description: z.string().nullish() })
export const instances = z.array(z.union([instance, bareInstance]))

const volume = z.object({
  id: z.string().min(1),
  name: z.string(),
  status: z.string(),
  size: z.number(),
  instance_id: z.string().nullish(),
  base_hourly_cost: price,
  is_permanently_deleted: z.boolean().nullish(),
})
export type Volume = z.output<typeof volume>
export const volumes = z.array(volume)

/** The common fields of keys and scripts. */
export const namedThings = z.array(z.object({ id: z.string().min(1), name: z.string() }))

/** The answer to a create is only the id, as text or as JSON. */
export const bareId = z.union([z.string().trim().min(1), z.object({ id: z.string().min(1) }).transform(({ id }) => id)])

/** Either one result per instance, or nothing. */
export const actionResults = z.array(z.object({ error: z.string().nullish() })).optional()

export const balance = z.object({ amount: z.number(), currency: z.string() })

export const token = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() })

/** The body does not matter. */
export const anything = z.unknown()

const failure = z.object({ message: z.string().nullish() })

export function failureOf(answer: unknown): { message: string } {
  return { message: failure.safeParse(answer).data?.message ?? '' }
}
