/** A customer stops, starts and reboots a rental of any kind, by id or name. */
import type { IfNoGpu } from '../../contract/rental-power.ts'
import { rentalStateTable } from '../../contract/rental-state.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { Tx } from '../../store/platform/database.ts'
import { updateRental, type Rental } from '../../store/rental/rental.ts'
import type { Actor, App } from '../app.ts'
import { lockOwnRental } from './own-rental.ts'
import { beginStart, beginStop, powersOf, readTerm, whyNotStoppable } from './rental-power.ts'

/** Stopping a stopped rental succeeds, and ends its wait for GPUs. */
export async function stopOwnRental(app: App, tx: Tx, actor: Actor, idOrName: string): Promise<Result<Rental>> {
  const locked = await lockOwnRental(tx, actor, idOrName)
  if (!locked.ok) return locked
  const rental = locked.value
  if (rental.status === 'Stopping') return locked
  if (rental.status === 'Stopped')
    return rental.start_requested_at === null
      ? locked
      : ok(await updateRental(tx, rental.id, { start_requested_at: null }))
  const refused = whyNotStoppable(app, rental, await readTerm(tx, rental.id))
  if (refused !== undefined) return refused
  if (!rentalStateTable[rental.status].actions.includes('stop'))
    return fail('not_running', { rentalId: rental.id, status: rental.status })
  return ok(await beginStop(app, tx, rental, { reason: 'stop_requested' }))
}

/** Starting a rental that runs or starts succeeds, unless it has no GPUs and should have them. */
export async function startOwnRental(
  app: App,
  tx: Tx,
  actor: Actor,
  idOrName: string,
  ifNoGpu: IfNoGpu,
): Promise<Result<Rental>> {
  const locked = await lockOwnRental(tx, actor, idOrName)
  if (!locked.ok) return locked
  const { id: rentalId, status, cpu_nano_per_hour: cpuPrice } = locked.value
  if (status === 'Running' || status === 'Starting') {
    if (cpuPrice !== null && ifNoGpu !== 'cpuOnly') return fail('runs_without_gpus', { rentalId })
    return locked
  }
  if (status !== 'Stopped') return fail('not_stopped', { rentalId, status })
  return beginStart(app, tx, locked.value, ifNoGpu)
}

export async function rebootOwnRental(app: App, tx: Tx, actor: Actor, idOrName: string): Promise<Result<Rental>> {
  const locked = await lockOwnRental(tx, actor, idOrName)
  if (!locked.ok) return locked
  const { id: rentalId, status, reboots } = locked.value
  if (!powersOf(app, locked.value, await readTerm(tx, rentalId)).reboot) return fail('cannot_reboot', { rentalId })
  if (status !== 'Running') return fail('not_running', { rentalId, status })
  tx.wake.add('power')
  return ok(await updateRental(tx, rentalId, { reboots: reboots + 1 }))
}
