/** Rentals of every kind over HTTP. Every operation on one rental answers with the rental's new state. */
import { MAX_INT32 } from '../../base/limits.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { App } from '../../app/app.ts'
import { createOnce } from '../../app/idempotency.ts'
import { changeOwnRental, findAnyRental, lockOwnRental } from '../../app/rental/own-rental.ts'
import { shareOf } from '../../app/rental/rental-power.ts'
import { rentalTag, terminateRental } from '../../app/rental/rental.ts'
import { usageOf } from '../../domain/commitment.ts'
import { isUnseen, wholeOf } from '../../domain/rental.ts'
import type { Term } from '../../domain/term.ts'
import { listPeople } from '../../store/account/account.ts'
import { readRerated } from '../../store/ledger/commitment.ts'
import { listSegmentsOf } from '../../store/ledger/segment.ts'
import { readMachines, type Machine } from '../../store/machine/machine.ts'
import { readWorkloadMessages } from '../../store/host/workload.ts'
import { transact } from '../../store/platform/database.ts'
import { readOpenInterruptions, type Interruption } from '../../store/rental/interruption.ts'
import { findRental, listRentals, readTerms, type Rental } from '../../store/rental/rental.ts'
import { badCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { shownSupplier } from './listed-machine.ts'
import { readDetailFacts, readRelayedPorts } from './rental-facts.ts'
import { placeRental, readRoomFor } from './rental-order.ts'
import { cpuOnlyFields, stateFields } from './rental-state.ts'
import { commitmentOnWire, detailFields, portMappings, sshOf, statusMessage } from './rental-view.ts'

const listed = { exclude: 'not-ended', only: 'ended', include: 'all' } as const

export const rentalHandlers = {
  listRentals: async (app, { actor, query: { q, kind, ended, limit, cursor } }) => {
    const beforeId = cursor === undefined ? undefined : decodeIdCursor(cursor)
    if (cursor !== undefined && (beforeId === undefined || beforeId > BigInt(MAX_INT32))) return badCursor()
    const rentals = await listRentals(app.database.db, {
      accountId: actor.accountId,
      q,
      kind,
      which: listed[ended],
      ...(beforeId === undefined ? {} : { before: Number.parseInt(beforeId.toString(), 10) }),
      limit: rowsToAsk(limit),
    })
    const { rows, nextCursor } = pageOf(rentals, limit, ({ id }) => id)
    const summaries = await readSummaries(app, rows)
    return ok({ rentals: summaries.map(({ onWire }) => onWire), nextCursor })
  },

  getRental: async (app, { actor, params }) =>
    answerRental(app, await findAnyRental(app.database.db, actor, params.id)),

  createRental: async (app, { actor, body, operation, idempotencyKey }) => {
    const room = await readRoomFor(app, body)
    return createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const rental = await placeRental(app, tx, actor, body, room)
      // Read inside the transaction, so that a repeated request gets the same answer. Its events are written at its
      // end.
      return answerRental({ ...app, database: { ...app.database, db: tx.db } }, rental)
    })
  },

  changeRental: async (app, { actor, params, body }) => {
    const { convertToOnDemandOnExpiry: convertOnExpiry, spendingLimitUsd: spendingLimit, ...others } = body
    const change = { ...others, convertOnExpiry, spendingLimit }
    return answerRental(app, await transact(app.database, (tx) => changeOwnRental(app, tx, actor, params.id, change)))
  },

  terminateRental: async (app, { actor, params, query }) => {
    const ended = await transact(app.database, async (tx): Promise<Result<Rental>> => {
      const rental = await lockOwnRental(tx, actor, params.id)
      if (!rental.ok) return rental
      return ok(await terminateRental(tx, rental.value, 'customer_request', tx.clock.now(), query.reason))
    })
    return answerRental(app, ended)
  },
} satisfies Partial<Handlers>

/** Reads the rental that an operation changed. */
export async function answerRental(
  app: App,
  result: Result<Pick<Rental, 'id'>>,
): Promise<Result<ResponseOf<Api['getRental']>>> {
  if (!result.ok) return result
  const { db } = app.database
  const rental = await findRental(db, result.value.id)
  if (rental === undefined) throw new Error(`rental ${result.value.id} does not exist`)
  const [facts, [summary], people] = await Promise.all([
    readDetailFacts(app, rental),
    readSummaries(app, [rental]),
    listPeople(db, [rental.person_id]),
  ])
  if (summary === undefined) throw new Error(`rental ${rental.id} has no summary`)
  const { onWire, term } = summary
  const person = people.get(rental.person_id)
  return ok({
    ...onWire,
    ...detailFields(app, rental, term, facts),
    movesTo: rental.spec.movesFrom === undefined ? null : (rental.spec.nodes[0]?.machineId ?? null),
    metadata: rental.user_metadata,
    orderedBy: { id: rental.person_id, name: person?.name ?? null, email: person?.email ?? '' },
    ...termFields(rental, term),
    commitment: facts.commitment === null ? null : commitmentOnWire(facts.commitment),
  })
}

function termFields(rental: Rental, { reservation }: Term) {
  return {
    termPeriodDays: reservation?.periodDays ?? null,
    termEndsAt: reservation?.endsAt ?? null,
    discountPercentage: reservation?.discountPercentage ?? null,
    originalPricePerHourUsd: reservation?.originalCostPerHour ?? null,
    convertToOnDemandOnExpiry: rental.convert_on_expiry,
  }
}

interface Summary {
  readonly onWire: ResponseOf<Api['listRentals']>['rentals'][number]
  readonly term: Term
}

/** Reads the summaries, in the order of `rentals`. */
async function readSummaries(app: App, rentals: readonly Rental[]): Promise<Summary[]> {
  const { db } = app.database
  const ids = rentals.map(({ id }) => id)
  const machineIds = rentals.flatMap(({ spec }) => spec.nodes[0]?.machineId ?? [])
  const [terms, costs, machines, publicPorts, interruptions, messages] = await Promise.all([
    readTerms(db, ids),
    readCosts(app, rentals),
    readMachines(db, [...new Set(machineIds)]),
    readRelayedPorts(app, rentals),
    readOpenInterruptions(db, ids),
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
      ...placeFields(rental, machine),
      ...stateFields(app, rental, term),
      ...cpuOnlyFields(app, rental, term),
      ...interruptionFields(rental, interruptions.get(rental.id)),
      statusReason: rental.status_reason,
      exitCode: rental.exit_code,
      statusMessage: statusMessage(rental, messages.get(rentalTag(app, rental)), []),
      pricePerHourUsd: term.costPerHour,
      currentCostPerHourUsd: costs.get(rental.id)?.perHour ?? zeroUsd,
      costSoFarUsd: costs.get(rental.id)?.soFar ?? zeroUsd,
      portMappings: portMappings(rental, publicPorts.get(rental.id)),
    }
    return { onWire, term }
  })
}

function placeFields(rental: Rental, machine: Machine | undefined) {
  const { spec } = rental
  return {
    id: rental.id,
    name: rental.name,
    label: rental.label,
    kind: rental.kind,
    region: rental.region,
    clusterName: spec.clusterName,
    providerId: rental.driver,
    supplierId: shownSupplier({ supplier_id: machine?.supplier_id ?? null }),
    machines: spec.nodes.map(({ machineId, gpuIndexes }) => ({ id: machineId, gpuCount: gpuIndexes.length })),
    gpuModel: spec.gpuModel,
    gpuType: rental.gpu_type,
    gpuFormFactor: spec.gpuFormFactor,
    gpuCount: rental.gpu_count,
    networkType: rental.network_type,
    resources: wholeOf(shareOf(rental)),
    image: spec.image,
    group: groupOf(spec),
    ssh: sshOf(rental),
    simulated: machine?.simulation ?? null,
    createdAt: rental.created_at,
    startedAt: rental.started_at,
    terminateRequestedAt: rental.terminate_requested_at,
    terminatedAt: rental.terminated_at,
  }
}

function groupOf({ group }: Rental['spec']) {
  return group === undefined ? null : { id: group.id, name: group.name, rank: group.rank }
}

function interruptionFields(rental: Rental, announced: Interruption | undefined) {
  const { interruption_notice_s: noticeSeconds, after_interruption: afterInterruption } = rental
  const { ends_at: endsAt = null, is_free: free = false } = announced ?? {}
  return {
    interruptible:
      noticeSeconds === null || afterInterruption === null ? null : { noticeSeconds, afterInterruption, endsAt, free },
    gpusDueAt: rental.status === 'Pending' ? rental.gpus_due_at : null,
  }
}

interface Cost {
  readonly soFar: NanoUsd
  /** Charged per hour now. */
  readonly perHour: NanoUsd
}

/** Computes costs in the same way as the balance (`readStanding`), so that the sums agree. */
async function readCosts(app: App, rentals: readonly Rental[]): Promise<Map<number, Cost>> {
  const { db } = app.database
  const ids = rentals.map(({ id }) => id)
  const [segments, rerated] = await Promise.all([listSegmentsOf(db, ids), readRerated(db, ids)])
  const now = app.clock.now()
  return new Map(
    rentals.map((rental) => {
      const ownSegments = segments.get(rental.id) ?? []
      const until = isUnseen(rental) ? (rental.seen_at ?? now) : now
      const usage = usageOf(
        ownSegments.map((row) => ({
          startedAt: row.started_at,
          endedAt: row.ended_at,
          pricePerHour: row.price_nano_per_hour,
        })),
        until,
      )
      const open = isUnseen(rental) ? undefined : ownSegments.find(({ ended_at: end }) => end === null)
      return [
        rental.id,
        {
          soFar: nanoUsdOf(usage.charged + (rerated.get(rental.id) ?? 0n)),
          perHour: open?.price_nano_per_hour ?? zeroUsd,
        },
      ] as const
    }),
  )
}
