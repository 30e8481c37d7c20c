/** Rentals of every kind over HTTP, in one shape. */
import { MAX_INT32 } from '../../base/limits.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { ok } from '../../contract/result.ts'
import type { AnyRental } from '../../contract/any-rental.ts'
import type { Simulation } from '../../contract/shared.ts'
import type { App } from '../../app/app.ts'
import { findAnyRental } from '../../app/rental/own-rental.ts'
import { shareOf } from '../../app/rental/rental-power.ts'
import { rentalTag } from '../../app/rental/rental.ts'
import { usageOf } from '../../domain/commitment.ts'
import { isReachable, isUnseen, wholeOf } from '../../domain/rental.ts'
import type { Term } from '../../domain/term.ts'
import { readRerated } from '../../store/ledger/commitment.ts'
import { listSegmentsOf } from '../../store/ledger/segment.ts'
import { readMachines } from '../../store/machine/machine.ts'
import { readWorkloadMessages } from '../../store/host/workload.ts'
import { listRentals, readTerms, type Rental } from '../../store/rental/rental.ts'
import { badCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { readDetailFacts, readRelayedPorts } from './rental-facts.ts'
import { cpuOnlyFields, stateFields } from './rental-state.ts'
import { commitmentOnWire, detailFields, portMappings, statusMessage } from './rental-view.ts'

export const anyRentalHandlers = {
  listAnyRentals: async (app, { actor, query: { ended, limit, cursor } }) => {
    const before = cursor === undefined ? undefined : decodeIdCursor(cursor)
    if (cursor !== undefined && (before === undefined || before > BigInt(MAX_INT32))) return badCursor()
    const rentals = await listRentals(app.database.db, {
      accountId: actor.accountId,
      which: ended ? 'ended' : 'not-ended',
      ...(before === undefined ? {} : { before: Number.parseInt(before.toString(), 10) }),
      limit: rowsToAsk(limit),
    })
    const { rows, nextCursor } = pageOf(rentals, limit, ({ id }) => id)
    const summaries = await readSummaries(app, rows)
    return ok({ rentals: summaries.map(({ onWire }) => onWire), nextCursor })
  },

  getAnyRental: async (app, { actor, params }) => {
    const own = await findAnyRental(app.database.db, actor, params.id)
    if (!own.ok) return own
    const rental = own.value
    const [facts, [summary]] = await Promise.all([readDetailFacts(app, rental), readSummaries(app, [rental])])
    if (summary === undefined) throw new Error(`rental ${rental.id} has no summary`)
    return ok({
      ...summary.onWire,
      ...detailFields(app, rental, summary.term, facts),
      metadata: rental.user_metadata,
      convertToOnDemandOnExpiry: rental.convert_on_expiry,
      commitment: facts.commitment === null ? null : commitmentOnWire(facts.commitment),
    })
  },
} satisfies Partial<Handlers>

interface Summary {
  readonly onWire: AnyRental
  readonly term: Term
}

/** In the order of `rentals`. */
async function readSummaries(app: App, rentals: readonly Rental[]): Promise<Summary[]> {
  const { db } = app.database
  const ids = rentals.map(({ id }) => id)
  const machineIds = rentals.flatMap(({ spec }) => spec.nodes[0]?.machineId ?? [])
  const [terms, costs, machines, publicPorts, messages] = await Promise.all([
    readTerms(db, ids),
    readCosts(app, rentals),
    readMachines(db, [...new Set(machineIds)]),
    readRelayedPorts(app, rentals),
    readWorkloadMessages(
      db,
      rentals.map((rental) => rentalTag(app, rental)),
    ),
  ])
  return rentals.map((rental) => {
    const term = terms.get(rental.id)
    if (term === undefined) throw new Error(`rental ${rental.id} has no term`)
    const machine = machines.get(rental.spec.nodes[0]?.machineId ?? '')
    const onWire = {
      ...placeFields(rental, machine?.simulation ?? null),
      ...stateFields(app, rental, term),
      ...cpuOnlyFields(app, rental, term),
      statusReason: rental.status_reason,
      statusMessage: statusMessage(rental, messages.get(rentalTag(app, rental)), []),
      pricePerHourUsd: term.costPerHour,
      currentCostPerHourUsd: costs.get(rental.id)?.perHour ?? zeroUsd,
      costSoFarUsd: costs.get(rental.id)?.soFar ?? zeroUsd,
      portMappings: portMappings(rental, publicPorts.get(rental.id)),
    }
    return { onWire, term }
  })
}

function placeFields(rental: Rental, simulated: Simulation | null) {
  const { spec } = rental
  const ssh = rental.provider_data?.sshNetworking?.[0]
  return {
    id: rental.id,
    name: rental.name,
    label: rental.label,
    kind: rental.kind,
    region: rental.region,
    clusterName: spec.clusterName,
    providerId: rental.driver,
    machines: spec.nodes.map(({ machineId, gpuIndexes }) => ({ id: machineId, gpuCount: gpuIndexes.length })),
    gpuModel: spec.gpuModel,
    gpuType: rental.gpu_type,
    gpuCount: rental.gpu_count,
    networkType: rental.network_type,
    resources: wholeOf(shareOf(rental)),
    image: spec.image,
    ssh: isReachable(rental.status) && ssh !== undefined ? { user: ssh.user, host: ssh.host, port: ssh.port } : null,
    simulated,
    createdAt: rental.created_at,
    startedAt: rental.started_at,
    terminatedAt: rental.terminated_at,
  }
}

interface Cost {
  readonly soFar: NanoUsd
  /** Charged per hour now. */
  readonly perHour: NanoUsd
}

/** Counts costs in the way of the balance (`readStanding`), so that the sums agree. */
async function readCosts(app: App, rentals: readonly Rental[]): Promise<Map<number, Cost>> {
  const { db } = app.database
  const ids = rentals.map(({ id }) => id)
  const [segments, rerated] = await Promise.all([listSegmentsOf(db, ids), readRerated(db, ids)])
  const now = app.clock.now()
  return new Map(
    rentals.map((rental) => {
      const own = segments.get(rental.id) ?? []
      const until = isUnseen(rental) ? (rental.seen_at ?? now) : now
      const used = usageOf(
        own.map((row) => ({ startedAt: row.started_at, endedAt: row.ended_at, pricePerHour: row.price_nano_per_hour })),
        until,
      )
      const open = isUnseen(rental) ? undefined : own.find(({ ended_at: end }) => end === null)
      return [
        rental.id,
        {
          soFar: nanoUsdOf(used.charged + (rerated.get(rental.id) ?? 0n)),
          perHour: open?.price_nano_per_hour ?? zeroUsd,
        },
      ] as const
    }),
  )
}
