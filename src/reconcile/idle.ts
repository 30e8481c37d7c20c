/**
 * Stops idle rentals that have an idle rule: notifies the customer, waits for the grace period, and acts if the machine is
 * still idle (domain/idle.ts). One server does this at a time. The state is in the database, so a restart of the server
 * does not restart the wait. If the restart loses samples, the wait begins again.
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
/** A rental is stopped only if the last message of its hosts is not older than this. */
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
          await checkRentals(app, watched)
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

async function checkRentals(app: App, watched: readonly WatchedRental[]): Promise<void> {
  const now = app.clock.now()
  const samples = await readSamples(app, watched, now)
  const waitingStates: Array<{ rentalId: number; state: IdleState }> = []
  for (const entry of watched) {
    const { rental, rule } = entry
    const state = advanceIdle(rule, entry.state, samples.get(rental.id) ?? [], now)
    const decision = decideIdle(rule, state, now)
    if (decision === 'wait') waitingStates.push({ rentalId: rental.id, state })
    else if (decision === 'notify') await notify(app, entry, { ...state, notifiedAt: now })
    else await act(app, entry, state)
  }
  await saveIdleStates(app.database.db, waitingStates)
}

/** The samples of each machine of a rental, by rental. */
async function readSamples(
  app: App,
  watched: readonly WatchedRental[],
  now: Instant,
): Promise<Map<number, Sample[][]>> {
  const realRentals = watched.filter(({ rental }) => simulationOf(app, rental) === undefined)
  const ids = realRentals.map(({ rental }) => rental.id)
  const from = Math.min(...realRentals.map(({ state }) => readFrom(state, now))) as Instant
  const savedMinutes = ids.length === 0 ? [] : await readMinutes(app.database.db, ids, from, now)
  const byRental = new Map<number, Minute[]>()
  for (const minute of [...savedMinutes, ...(app.recorder?.unsaved(ids) ?? [])]) {
    const minutes = byRental.get(minute.rentalId) ?? []
    byRental.set(minute.rentalId, minutes)
    minutes.push(minute)
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
    const isEnding = isQuiet && (await endIdleRental(app, tx, locked, rule))
    // The wait begins again if the rental is in use after all, or if it was stopped and is started later.
    await saveIdleStates(tx.db, [
      { rentalId: rental.id, state: isEnding || !isQuiet ? { ...inUse, seenUntil: state.seenUntil } : state },
    ])
  })
}

/** Checks the newest messages of the hosts, which cover the time that is not in the samples yet. */
async function isStillIdle(app: App, rental: Rental, rule: IdleRule, state: IdleState): Promise<boolean> {
  if (simulationOf(app, rental) !== undefined) return true
  const now = app.clock.now()
  const machines = await listRentedMachines(app.database.db, [rental.id])
  return (
    machines.length === rental.spec.nodes.length &&
    machines.every((machine) => {
      const { measured } = machine
      const workload = measured?.metrics.workloads?.find(({ id }) => id === machine.workloadId)
      if (measured === null || workload === undefined || now - measured.at > MAX_MESSAGE_AGE_MS) return false
      const quietSince = measured.at - workload.quietSeconds * SECOND_MS
      return (
        quietSince <= (state.seenUntil ?? measured.at) && isIdle(sampleOf(machine, measured.metrics, measured.at), rule)
      )
    })
  )
}
