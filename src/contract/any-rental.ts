/** Rentals of every kind as one noun (v2). The operations of the interface show each kind in a shape of its own. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { commitment } from './commitment.ts'
import { endpoint } from './endpoint.ts'
import { providerId } from './provider-data.ts'
import { cpuOnlyFields } from './cpu-only.ts'
import { detailFields, stateFields } from './rental.ts'
import { idOrNameParams } from './rental-session.ts'
import { gpuType, networkType, rentalKind, timestamp, usdAmount } from './shared.ts'

const summaryFields = {
  id: z.int32(),
  name: z.string().describe('Unique; commands and addresses use it'),
  label: z.string().nullable(),
  kind: rentalKind,
  ...stateFields,
  ...cpuOnlyFields,
  statusReason: detailFields.statusReason,
  statusMessage: detailFields.statusMessage,
  region: z.string(),
  clusterName: z.string(),
  providerId: providerId.describe('The engine that runs it'),
  machines: z
    .array(z.object({ id: z.string(), gpuCount: z.int() }))
    .describe('One, unless several bare-metal machines'),
  gpuModel: z.string(),
  gpuType: gpuType.nullable().describe('null: a model that only the marketplace has'),
  gpuCount: z.int32(),
  networkType,
  resources: z
    .object({
      cpuModel: z.string(),
      cpuCount: z.number().describe('Virtual cores'),
      ramGb: z.number(),
      storageGb: z.number(),
    })
    .describe('Of all its machines together'),
  image: z
    .object({ name: z.string(), tag: z.string().nullable() })
    .nullable()
    .describe('Of a container; null: the default of the supplier'),
  pricePerHourUsd: usdAmount.describe('While it runs'),
  currentCostPerHourUsd: usdAmount.describe(
    'Charged per hour now: nothing before it runs, while a replica loads its model, and while it is unreachable; its disk while it is stopped. The sum over all rentals and volumes is the hourly spend of the account',
  ),
  costSoFarUsd: detailFields.costSoFarUsd,
  ssh: z
    .object({ user: z.string(), host: z.string(), port: z.number() })
    .nullable()
    .describe('null: login by SSH is not possible, or not yet'),
  portMappings: detailFields.portMappings,
  simulated: detailFields.simulated,
  createdAt: timestamp,
  startedAt: timestamp.nullable(),
  terminatedAt: timestamp.nullable(),
}

const anyRental = z.object(summaryFields).meta({ id: 'AnyRental' })
export type AnyRental = z.output<typeof anyRental>

const anyRentalDetail = z
  .object({
    ...summaryFields,
    ...detailFields,
    metadata: z.record(z.string(), z.unknown()).describe('As given in the order'),
    convertToOnDemandOnExpiry: z.boolean().nullable(),
    commitment: commitment.nullable().describe('Commitment of a reserved term; null: on demand'),
  })
  .meta({ id: 'AnyRentalDetail' })

const rentals = { family: 'v2', tag: 'Rentals', method: 'GET', access: ['compute:read'] } as const

export const anyRentalEndpoints = {
  listAnyRentals: endpoint({
    ...rentals,
    path: '/v2/rentals',
    summary: 'List rentals of every kind, newest first',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      ended: z.stringbool().default(false).describe('Terminated rentals instead of the others'),
      limit: z.coerce.number().int().min(1).max(limits.plainListRows).default(limits.plainListRows),
      cursor: z.string().max(200).optional().describe('`nextCursor` from the previous page'),
    }),
    response: z.object({ rentals: z.array(anyRental), nextCursor: z.string().nullable() }),
  }),
  getAnyRental: endpoint({
    ...rentals,
    path: '/v2/rentals/{id}',
    summary: 'Get a rental of any kind with its cost and events',
    description: 'By id or name. Ended rentals are found, too.',
    errors: [400, 401, 403, 404, 500],
    params: idOrNameParams,
    response: anyRentalDetail,
  }),
}
