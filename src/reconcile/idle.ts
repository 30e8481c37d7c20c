/**
 * Stops what nobody uses, for rentals with an idle rule: tells the customer, waits for the grace period, and acts if the
 * machine is still idle then (domain/idle.ts). One server at a time. The state is in the database, so a restart of the
 * server does not begin the wait anew, while samples that were lost with it do.
 */
import type { App } from '../app/app.ts'
import { endIdleRental, idleActionFor } from '../app/rental/idle.ts'
import { recordRentalEvent } from '../app/rental/rental-event.ts'
import { simulatedSamples, simulationOf } from '../app/rental/rental-metrics.ts'
import { formatInstant, SECOND_MS, type Instant } from '../base/instant.ts'
import type { IdleRule } from '../contract/workload.ts'
import { actsAtOf, advanceIdle, decideIdle, inUse, isIdle, readFrom, type IdleState } from '../domain/idle.ts'
import type { Sample } from '../domain/sample.ts'
import { transact } from '../store/platform/database.ts'
import { endTurn, takeTurn } from '../store/platform/lease.ts'
import { readMinutes, type Minute } from '../store/rental/rental-sample.ts'
import { lockRental, type Rental } from '../store/rental/rental.ts'
import { listWatchedRentals, saveIdleStates, type WatchedRental } from '../store/rental/rental-idle.ts'
import { listRentedMachines } from '../store/host/workload.ts'
import { sampleOf } from '../app/rental/metric-recorder.ts'
import type { Reconciler } from './loop.ts'

const EVERY_MS = 15 * SECOND_MS
const LEASE_MS = 60 * SECOND_MS
const BATCH = 200
/** The newest message of a host before anything is stopped. */
const MAX_MESSAGE_AGE_MS = 30 * SECOND_MS

export function watchIdle(app: App): Reconciler {
  return {
    name: 'idle',
    everyMs: EVERY_MS,
    run: async (signal) => {
      const { database, clock } = app
      const first = await listWatchedRentals(database.db, 0, BATCH)
      if (first.length === 0) return false
      const token = await takeTurn(database.db, 'idle', { now: clock.now(), leaseMs: LEASE_MS })
      if (token === undefined) return false
      try {
        for (let watched = first; watched.length > 0 && !signal.aborted;) {
          await watchSome(app, watched)
          const last = watched.at(-1)?.rental.id ?? 0
          watched = watched.length < BATCH ? [] : await listWatchedRentals(database.db, last, BATCH)
        }
      } finally {
        await endTurn(database.db, 'idle', token, clock.now())
      }
      return false
    },
  }
}

async function watchSome(app: App, watched: readonly WatchedRental[]): Promise<void> {
  const now = app.clock.now()
  const samples = await readSamples(app, watched, now)
  const quiet: Array<{ rentalId: number; state: IdleState }> = []
  for (const one of watched) {
    const state = advanceIdle(one.rule, one.state, samples.get(one.rental.id) ?? [], now)
    const decision = decideIdle(one.rule, state, now)
    if (decision === 'wait') quiet.push({ rentalId: one.rental.id, state })
    else if (decision === 'notify') await notify(app, one, { ...state, notifiedAt: now })
    else await act(app, one, state)
  }
  await saveIdleStates(app.database.db, quiet)
}

/** By rental: the samples of each of its machines. */
async function readSamples(
  app: App,
  watched: readonly WatchedRental[],
  now: Instant,
): Promise<Map<number, Sample[][]>> {
  const real = watched.filter(({ rental }) => simulationOf(app, rental) === undefined)
  const ids = real.map(({ rental }) => rental.id)
  const from = Math.min(...real.map(({ state }) => readFrom(state, now))) as Instant
  const saved = ids.length === 0 ? [] : await readMinutes(app.database.db, ids, from, now)
  const byRental = new Map<number, Minute[]>()
  for (const minute of [...saved, ...(app.recorder?.unsaved(ids) ?? [])]) {
    const own = byRental.get(minute.rentalId) ?? []
    byRental.set(minute.rentalId, own)
    own.push(minute)
  }
  return new Map(
    watched.map(({ rental, state }) => {
      const simulate = simulationOf(app, rental)
      if (simulate !== undefined) return [rental.id, simulatedSamples(simulate, rental, readFrom(state, now), now)]
      const minutes = byRental.get(rental.id) ?? []
      const machines = rental.spec.nodes.map((_, node) =>
        minutes
          .filter((minute) => minute.node === node)
          .flatMap((minute) => minute.samples)
          .toSorted((a, b) => a.at - b.at),
      )
      return [rental.id, machines]
    }),
  )
}

async function notify(app: App, { rental, rule }: WatchedRental, state: IdleState): Promise<void> {
  await transact(app.database, async (tx) => {
    const locked = await lockRental(tx, rental.id)
    if (locked?.status !== 'Running') return
    await saveIdleStates(tx.db, [{ rentalId: rental.id, state }])
    const action = await idleActionFor(app, tx, locked, rule)
    recordRentalEvent(tx, locked, 'rental.idle', {
      idleSince: formatInstant(state.idleSince ?? tx.clock.now()),
      action,
      ...(action === 'notify' ? {} : { actsAt: formatInstant(actsAtOf(rule, state.notifiedAt ?? tx.clock.now())) }),
    })
  })
}

async function act(app: App, { rental, rule }: WatchedRental, state: IdleState): Promise<void> {
  const isQuiet = await isStillIdle(app, rental, rule, state)
  await transact(app.database, async (tx) => {
    const locked = await lockRental(tx, rental.id)
    if (locked?.status !== 'Running') return
    const ended = isQuiet && (await endIdleRental(app, tx, locked, rule))
    // It is in use after all, or it ends and begins anew.
    await saveIdleStates(tx.db, [
      { rentalId: rental.id, state: ended || !isQuiet ? { ...inUse, seenUntil: state.seenUntil } : state },
    ])
  })
}

/** By the newest messages of its hosts: they cover the time that is not in the samples yet. */
async function isStillIdle(app: App, rental: Rental, rule: IdleRule, state: IdleState): Promise<boolean> {
  if (simulationOf(app, rental) !== undefined) return true
  const now = app.clock.now()
  const machines = await listRentedMachines(app.database.db, [rental.id])
  return (
    machines.length === rental.spec.nodes.length &&
    machines.every((machine) => {
      const { measured } = machine
      const own = measured?.metrics.workloads?.find(({ id }) => id === machine.workloadId)
      if (measured === null || own === undefined || now - measured.at > MAX_MESSAGE_AGE_MS) return false
      const quietSince = measured.at - own.quietSeconds * SECOND_MS
      return (
        quietSince <= (state.seenUntil ?? measured.at) && isIdle(sampleOf(machine, measured.metrics, measured.at), rule)
      )
    })
  )
}
