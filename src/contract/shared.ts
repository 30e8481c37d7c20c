/** Shapes that several nouns use. */
import { z } from 'zod'
import { formatInstant, instantOf, type Instant } from '../base/instant.ts'
import { limits, MAX_INT32 } from '../base/limits.ts'
import { formatUsd, usd, usdToNumber, type NanoUsd } from '../base/money.ts'
import { gpuTypes, networkTypes } from './choices.ts'

export const MAX_SAFE = Number.MAX_SAFE_INTEGER

export const gpuType = z.enum(gpuTypes)
export type GpuType = z.infer<typeof gpuType>

export const networkType = z.enum(networkTypes)
export type NetworkType = z.infer<typeof networkType>

export const gpuFormFactor = z.enum(['sxm5', 'sxm6', 'pcie'])
export type GpuFormFactor = z.infer<typeof gpuFormFactor>

export const ethernetVariant = z.enum(['normal', 'rocev2'])

export const orderableTermType = z.enum(['on-demand', 'reserved'])

/** With an offset, the last hours of 9999 can fall into a year that RFC 3339 cannot express. */
const LAST_TIME = '9999-12-31T23:59:59.999Z'

/** RFC 3339. Responses are UTC with milliseconds; requests may use any offset. */
export const timeText = z.iso
  .datetime({ offset: true })
  .refine((text) => Date.parse(text) <= Date.parse(LAST_TIME), `Must be no later than ${LAST_TIME}`)

/**
 * Converts between the values in our code, `NanoUsd` and `Instant`, and the strings and numbers of the API. Validation
 * decodes requests, and the writer of an operation (`wire.ts`) encodes its answer. OpenAPI describes the encoded form.
 */
function codec<Wire extends z.ZodType, Value>(
  wire: Wire,
  decode: (wire: z.output<Wire>) => Value,
  encode: (value: Value) => z.output<Wire>,
): z.ZodCodec<Wire, z.ZodType<Value, Value>> {
  const { $schema: _, ...schema } = z.toJSONSchema(wire)
  const value = z.any().meta(schema) as unknown as z.ZodType<Value, Value>
  return z.codec<Wire, z.ZodType<Value, Value>>(wire, value, { decode, encode })
}
export const usdIn = (text: z.ZodString) => codec<z.ZodString, NanoUsd>(text, usd, formatUsd)
const decodeTime = (text: string): Instant => instantOf(Date.parse(text))

/** An amount in an answer: USD with nine decimals. */
export const usdAmount = usdIn(z.string())
/** An amount in an answer of the given interface: USD as a JSON number. */
export const usdNumber = usdNumberIn(z.number())
export const positiveUsdNumber = usdNumberIn(z.number().positive())
/** A time in an answer: UTC with milliseconds. */
export const timestamp = codec<z.ZodString, Instant>(z.string(), decodeTime, formatInstant)
/** A time in a request: RFC 3339 with any offset. */
export const time = codec<typeof timeText, Instant>(timeText, decodeTime, formatInstant)

function usdNumberIn(number: z.ZodNumber) {
  return codec<z.ZodNumber, NanoUsd>(number, (amount) => usd(amount.toFixed(9)), usdToNumber)
}

/** The same schema for an answer, in which fields with a default are always present. */
export function complete<T extends z.ZodType>(schema: T): z.ZodType<z.output<T>, z.output<T>> {
  return schema as unknown as z.ZodType<z.output<T>, z.output<T>>
}

/** The name of the operator's account at another cloud. */
export const providerName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,19}$/, 'Must start with a letter and have at most 20 lowercase letters, digits and hyphens')

export const labelText = z.string().max(limits.labelChars)

export const volumeLabel = z
  .string()
  .min(4)
  .max(255)
  .regex(/^[A-Za-z0-9_-]+$/, 'Must be letters, digits, underscores and hyphens')

export const positiveId = z.int().positive().max(MAX_SAFE)

/** An amount in a request: USD as a string with at most nine decimals. */
export const signedUsd = usdIn(z.string().regex(/^-?\d{1,9}(\.\d{1,9})?$/, 'Must be an amount in USD such as "12.50"'))
export const positiveUsd = usdIn(
  z.string().regex(/^(?!0+(\.0+)?$)\d{1,9}(\.\d{1,9})?$/, 'Must be an amount in USD above zero, such as "12.50"'),
)
export const nonNegativeUsd = usdIn(
  z.string().regex(/^\d{1,9}(\.\d{1,9})?$/, 'Must be an amount in USD such as "12.50"'),
)

/** A price per hour. The cap keeps the largest order that a quota allows within a 64-bit ledger. */
export const priceUsd = usdIn(
  z.string().regex(/^(\d{1,3}(\.\d{1,9})?|1000(\.0{1,9})?)$/, 'Must be a price in USD up to 1000, such as "2.49"'),
)
export const storagePriceUsd = usdIn(
  z
    .string()
    .regex(
      /^(?!0(\.0+)?$)(0(\.\d{1,9})?|1(\.0{1,9})?)$/,
      'Must be a price in USD above zero and up to 1, such as "0.0001"',
    ),
)

export const reasonText = z
  .string()
  .max(limits.reasonChars)
  .refine((text) => text.trim() !== '', 'Enter a reason')
  .describe('Recorded in the audit log')

export const rentalKind = z.enum(['virtual-machine', 'bare-metal', 'container'])

/** Images for the GPUs of one do not run on those of another. */
export const gpuVendor = z.enum(['nvidia', 'amd'])
export type GpuVendor = z.output<typeof gpuVendor>

export const simulation = z
  .enum(['machine', 'gpus'])
  .describe('`machine`: no real machine; login is not possible. `gpus`: a real machine with simulated GPUs')
export type Simulation = z.output<typeof simulation>

/** The query of a list in pages; the default is the first page. */
export const pageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(limits.pageRows).default(limits.pageRowsDefault),
  cursor: z.string().max(200).optional().describe('`nextCursor` from the previous page'),
})

/** Finds rows by a part of their text. */
export const searchText = z.string().trim().min(1).max(200).optional()

/** The query of a list that returns a bare array; the ID of the last row leads to the next page. */
export const beforeQuery = z.strictObject({
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(limits.plainListRows)
    .optional()
    .describe('Maximum number of rows; default: 10,000'),
  before: z.coerce.number().int().positive().max(MAX_INT32).optional().describe('Only rows with a smaller ID'),
})

export const message = z.object({ message: z.string() })

/** An integer path parameter. */
export const numericIdParams = z.object({ id: z.coerce.number().int().positive().max(MAX_INT32) })
export const textIdParams = z.object({ id: z.string().min(1).max(100) })

/** Offers have this price, so that customers know before they order what a stopped rental costs. */
export const stoppedDiskPrice = usdAmount
  .nullable()
  .describe(
    "Price of a stopped rental's disk, USD per GB and month of 730 hours, at most the price of the running rental; null: it cannot be stopped",
  )

export const stoppedCost = usdAmount
  .nullable()
  .describe('Price of its disk while it is stopped; null: it cannot be stopped')

export const unbilledUsd = usdAmount.describe(
  'Cost of running machines and volumes since their last charge, a few minutes ago; not in the statement yet',
)
