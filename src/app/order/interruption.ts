/** Which rentals an order interrupts that finds no free GPUs. Only orders do that which cannot be interrupted themselves. */
import { chooseInterrupted, waitSeconds } from '../../domain/interruption.ts'
import type { OrderFields, OrderInterruption } from '../../domain/order.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { OrderedMachine } from '../../store/machine/machine.ts'
import { listInterruptible } from '../../store/rental/interruption.ts'
import { lockRentals } from '../../store/rental/rental.ts'

/**
 * The interruption that gives an order enough GPUs of a machine. If the order agrees to its wait, the rentals are locked:
 * they stay as they are until the order is placed. undefined: none is needed, possible or allowed.
 */
export async function planInterruption(
  tx: Tx,
  { gpuCount, interruptible, maxWaitSeconds = 0 }: OrderFields,
  machine: OrderedMachine,
): Promise<OrderInterruption | undefined> {
  const missing = gpuCount - machine.gpus_free
  const isOpen = machine.status === 'node_ready' && machine.listed
  if (missing <= 0 || gpuCount > machine.gpus_total || interruptible === true || !isOpen) return undefined
  const plan = await choose(tx, machine, missing)
  if (plan === undefined || plan.waitSeconds > maxWaitSeconds) return plan
  await lockRentals(tx, plan.rentalIds)
  // Before they were locked, one could end, break, or be interrupted for another order.
  const locked = await choose(tx, machine, missing)
  return locked?.rentalIds.join() === plan.rentalIds.join() ? locked : undefined
}

async function choose(tx: Tx, machine: OrderedMachine, gpus: number): Promise<OrderInterruption | undefined> {
  const chosen = chooseInterrupted(await listInterruptible(tx.db, machine.id), gpus)
  if (chosen === undefined) return undefined
  const rentalIds = chosen.map(({ rentalId }) => rentalId)
  return { machineId: machine.id, rentalIds, waitSeconds: waitSeconds(chosen) }
}
