/** Rentals of every kind (v2). The operations of the interface show each kind in a shape of its own. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { rentalTypes } from './choices.ts'
import { commitment } from './commitment.ts'
import { cpuOnlyFields } from './cpu-only.ts'
import { endpoint } from './endpoint.ts'
import { eventRecord } from './event.ts'
import { portFields } from './port.ts'
import { providerId } from './provider-data.ts'
import { rentalOrder } from './rental-order.ts'
import { interruptionFields } from './interruption.ts'
import { idOrNameParams } from './rental-session.ts'
import { describeStates, rentalActions, rentalStates, rentalStatuses } from './rental-state.ts'
import {
  gpuFormFactor,
  gpuType,
  labelText,
  networkType,
  nonNegativeUsd,
  rentalKind,
  searchText,
  simulation,
  stoppedCost,
  time,
  timestamp,
  usdAmount,
} from './shared.ts'
import { idleRule, orderedWorkload } from './workload.ts'

export const rentalStatus = z.enum(rentalStatuses)

/** The given `status` has no words for some of them, and shows the nearest. */
export const rentalState = z.enum(rentalStates).meta({ id: 'RentalState', description: describeStates() })

export const rentalType = z.enum(rentalTypes)
export type RentalType = z.infer<typeof rentalType>

/** Fields of every answer about a rental that has room for them. */
export const stateFields = {
  state: rentalState,
  actions: z.array(z.enum(rentalActions)).describe('Operations that are possible in this state'),
}

/** Details of a rental, of every kind. */
export const detailFields = {
  ...cpuOnlyFields,
  statusReason: z
    .string()
    .nullable()
    .describe('Why it is Failed, Stopped, Terminating or Terminated; stable, for programs'),
  exitCode: z.int().nullable().describe('Exit code of its program, once a container has ended by itself'),
  statusSince: timestamp,
  stuckSince: timestamp.nullable().describe('Set while the rental is stuck in its state'),
  terminateRequestedAt: timestamp.nullable(),
  autoTerminateAt: timestamp.nullable(),
  startRequestedAt: timestamp.nullable().describe('Set while a stopped rental waits for free GPUs on its host'),
  stoppedCostPerHourUsd: stoppedCost,
  spendingLimitUsd: usdAmount.nullable(),
  stopAt: timestamp.nullable().describe('When it is stopped automatically; its disk is kept'),
  idle: idleRule.nullable().describe('What happens when the machine is not used'),
  workload: orderedWorkload.describe('Options of the order'),
  costSoFarUsd: usdAmount,
  statusMessage: z
    .string()
    .nullable()
    .describe('Progress while Pending, `rebooting`, or the cause when Failed, as a sentence'),
  portMappings: z
    .array(z.object({ port: z.number(), host: z.string(), publicPort: z.number() }))
    .describe('Public address of each port while it is running'),
  ...portFields,
  simulated: simulation.nullable().describe('null: real machine with real GPUs'),
  events: z.array(eventRecord),
}

const summaryFields = {
  id: z.int32(),
  name: z.string().describe('Unique; commands and addresses use it'),
  label: z.string().nullable(),
  kind: rentalKind,
  ...stateFields,
  ...cpuOnlyFields,
  statusReason: detailFields.statusReason,
  exitCode: detailFields.exitCode,
  statusMessage: detailFields.statusMessage,
  region: z.string(),
  clusterName: z.string(),
  providerId: providerId.describe('The driver that runs it'),
  supplierId: z.string().describe("Supplier of its machine; `house` for the operator's own"),
  machines: z
    .array(z.object({ id: z.string(), gpuCount: z.int() }))
    .describe('One, unless several bare-metal machines'),
  gpuModel: z.string(),
  gpuType: gpuType.nullable().describe('null: a model that only the marketplace has'),
  gpuFormFactor: gpuFormFactor.nullable(),
  gpuCount: z.int32(),
  networkType,
  ...interruptionFields,
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
  group: z
    .object({ id: z.string(), name: z.string(), rank: z.int() })
    .nullable()
    .describe('The group that it is a node of; null: none'),
  simulated: detailFields.simulated,
  createdAt: timestamp,
  startedAt: timestamp.nullable(),
  terminateRequestedAt: detailFields.terminateRequestedAt,
  terminatedAt: timestamp.nullable(),
}

const rentalSummary = z.object(summaryFields).meta({ id: 'RentalSummary' })
/** The form in which clients get it. */
export type RentalSummary = z.input<typeof rentalSummary>

export const rental = z
  .object({
    ...summaryFields,
    ...detailFields,
    movesTo: z
      .string()
      .nullable()
      .describe('Machine on which it starts, while its disk is copied there; null: it stays where it is'),
    metadata: z.record(z.string(), z.unknown()).describe('As given in the order'),
    orderedBy: z
      .object({ id: z.string(), name: z.string().nullable(), email: z.string() })
      .describe('Member of the account who ordered it'),
    termPeriodDays: z.number().nullable().describe('Length of its reserved term; null: on demand'),
    termEndsAt: timestamp.nullable(),
    discountPercentage: z.number().nullable(),
    originalPricePerHourUsd: usdAmount.nullable().describe('On-demand price when the term was ordered'),
    convertToOnDemandOnExpiry: z
      .boolean()
      .nullable()
      .describe('Whether it continues on demand when its term ends, or terminates; null: a container'),
    commitment: commitment.nullable().describe('Commitment of a reserved term; null: there was none'),
  })
  .meta({ id: 'Rental' })

const rentalChange = z
  .strictObject({
    label: labelText.nullable().optional(),
    autoTerminateAt: time.nullable().optional(),
    spendingLimitUsd: nonNegativeUsd.nullable().optional(),
    stopAt: time.nullable().optional(),
    idle: idleRule.nullable().optional(),
    convertToOnDemandOnExpiry: z
      .boolean()
      .optional()
      .describe('Whether it continues on demand when its reserved term ends, or terminates; not for containers'),
  })
  .meta({ id: 'RentalChange' })

const rentals = { family: 'v2', tag: 'Rentals', path: '/v2/rentals' } as const
const oneRental = {
  ...rentals,
  path: '/v2/rentals/{id}',
  errors: [400, 401, 403, 404, 500],
  params: idOrNameParams,
  response: rental,
} as const

export const rentalEndpoints = {
  listRentals: endpoint({
    ...rentals,
    method: 'GET',
    access: ['compute:read'],
    summary: 'List rentals of every kind, newest first',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      q: searchText.describe('Part of the name or label, or the ID'),
      kind: rentalKind.optional(),
      ended: z
        .enum(['exclude', 'only', 'include'])
        .default('exclude')
        .describe('Whether the list has terminated rentals'),
      limit: z.coerce.number().int().min(1).max(limits.plainListRows).default(limits.plainListRows),
      cursor: z.string().max(200).optional().describe('`nextCursor` from the previous page'),
    }),
    response: z.object({ rentals: z.array(rentalSummary), nextCursor: z.string().nullable() }),
  }),
  createRental: endpoint({
    needsTerms: true,
    ...rentals,
    method: 'POST',
    access: ['compute:write'],
    summary: 'Rent a container, a virtual machine or bare-metal machines',
    description:
      'Returns immediately with a `Pending` rental, which then starts. An on-demand order holds the price of one hour; a reserved order holds the price of the whole term (see `quoteRental`). A retry with the same `Idempotency-Key` gives the first answer.',
    errors: [400, 401, 403, 500],
    body: rentalOrder,
    response: rental,
    idempotent: true,
  }),
  getRental: endpoint({
    ...oneRental,
    method: 'GET',
    access: ['compute:read'],
    summary: 'Get a rental of any kind with its cost and events',
    description: 'By id or name. Ended rentals are found, too.',
  }),
  changeRental: endpoint({
    ...oneRental,
    method: 'PATCH',
    access: ['compute:write'],
    summary: 'Change the label, the scheduled end or stop, or the limits of a rental',
    description: 'Fields that are left out stay as they are; null removes a value.',
    body: rentalChange,
  }),
  terminateRental: endpoint({
    ...oneRental,
    method: 'DELETE',
    access: ['compute:write'],
    summary: 'Terminate a rental; terminating it again succeeds',
    description:
      'Billing stops with this request. The rental becomes `Terminated` once the machine is gone, and stays readable.',
    query: z.strictObject({
      reason: z.string().max(limits.reasonChars).optional().describe('Recorded in the events'),
    }),
  }),
}
