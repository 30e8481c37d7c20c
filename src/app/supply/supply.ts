/** Machines, as suppliers and operators manage them. */
import { formatUsd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { findAccount } from '../../store/account/account.ts'
import type { Tx } from '../../store/platform/database.ts'
import { findHost, moveHost } from '../../store/host/host.ts'
import { changeMachine, findMachine, type Machine } from '../../store/machine/machine.ts'
import { canStop } from '../../drivers/driver.ts'
import type { Actor, App } from '../app.ts'
import { supplierOf } from './host.ts'

function noMachine(): ReturnType<typeof fail> {
  return fail('machine_not_found')
}

function pricedByTheBook(): ReturnType<typeof failField> {
  return failField(['pricePerGpuHourUsd'], 'price_book_managed')
}

function pricedByItsSupplier(): ReturnType<typeof failField> {
  return failField(['pricePerGpuHourUsd'], 'supplier_priced')
}

export interface SuppliedMachineChange {
  readonly price?: NanoUsd | undefined
  /** null: no interruptible rentals. */
  readonly interruptiblePrice?: NanoUsd | null | undefined
  readonly noticeSeconds?: number | undefined
  readonly listed?: boolean | undefined
}

/** Interruptible rentals cost less than others, and keep their disk, so the driver must be able to stop them. */
function refusePrices(
  { drivers }: Pick<App, 'drivers'>,
  machine: Machine,
  { price, interruptiblePrice }: Pick<SuppliedMachineChange, 'price' | 'interruptiblePrice'>,
): Failure | undefined {
  const full = price ?? machine.price_nano_per_gpu_hour
  const lower = interruptiblePrice === undefined ? machine.interruptible_nano_per_gpu_hour : interruptiblePrice
  if (lower === null) return undefined
  const field = interruptiblePrice === undefined ? 'pricePerGpuHourUsd' : 'interruptiblePricePerGpuHourUsd'
  const isStoppable = machine.offer_id === null && canStop(drivers.get(machine.driver), 'container')
  if (machine.offering !== 'marketplace' || (interruptiblePrice !== undefined && !isStoppable))
    return failField([field], 'machine_not_interruptible')
  return full !== null && lower < full ? undefined : failField([field], 'interruptible_price_too_high')
}

/** A supplier prices and lists its own machines only, even with an operator key; the operator those of its own hosts. */
export async function changeSuppliedMachine(
  app: Pick<App, 'drivers'>,
  tx: Tx,
  actor: Actor,
  id: string,
  change: SuppliedMachineChange,
): Promise<Result<Machine>> {
  const owner = supplierOf(actor)
  const machine = await findMachine(tx.db, id)
  if (machine === undefined || machine.supplier_id !== owner) return noMachine()
  if (owner === null && (await findHost(tx.db, id))?.supplier_id !== null) return noMachine()
  if (change.price !== undefined && machine.offering !== 'marketplace') return pricedByTheBook()
  const { price, interruptiblePrice, noticeSeconds, listed } = change
  const refused = refusePrices(app, machine, change)
  if (refused !== undefined) return refused
  const columns = {
    ...(price === undefined ? {} : { price }),
    ...(interruptiblePrice === undefined ? {} : { interruptiblePrice }),
    ...(noticeSeconds === undefined ? {} : { noticeSeconds }),
    ...(listed === undefined ? {} : { listed }),
  }
  const changed = await changeMachine(tx, id, columns, owner)
  if (changed === undefined) return noMachine()
  if (owner === null) {
    const detail = {
      ...(price === undefined ? {} : { pricePerGpuHourUsd: formatUsd(price) }),
      ...(interruptiblePrice === undefined
        ? {}
        : { interruptiblePricePerGpuHourUsd: interruptiblePrice === null ? null : formatUsd(interruptiblePrice) }),
      ...(noticeSeconds === undefined ? {} : { interruptionNoticeSeconds: noticeSeconds }),
      listed,
    }
    await writeAudit(tx, { actor: actor.keyId, action: 'machine.change', subject: `machine:${id}`, detail })
  }
  return ok(changed)
}

export interface OperatorMachineChange {
  readonly supplierId?: string | null | undefined
  readonly listed?: boolean | undefined
  readonly draining?: boolean | undefined
  readonly price?: NanoUsd | undefined
  readonly gpusSick?: readonly number[] | undefined
  readonly reason: string
}

export async function changeFleetMachine(
  tx: Tx,
  actor: Actor,
  id: string,
  change: OperatorMachineChange,
): Promise<Result<Machine>> {
  const machine = await findMachine(tx.db, id)
  if (machine === undefined) return noMachine()
  const sick = change.gpusSick?.findIndex((index) => index >= machine.gpus_total) ?? -1
  if (sick >= 0) return failField(['gpusSick', sick], 'gpu_out_of_range', { gpus: machine.gpus_total })
  if (change.draining !== undefined && machine.status !== 'node_ready' && machine.status !== 'node_draining') {
    return failField(['draining'], 'machine_not_ready', { status: machine.status })
  }
  if (change.supplierId !== undefined && change.supplierId !== null) {
    const supplier = await findAccount(tx.db, change.supplierId)
    if (supplier === undefined || supplier.platform_fee_bp === null) {
      return failField(['supplierId'], 'supplier_not_found')
    }
  }
  const owner = change.supplierId === undefined ? machine.supplier_id : change.supplierId
  if (change.price !== undefined) {
    if (machine.offering !== 'marketplace') return pricedByTheBook()
    if (owner !== null) return pricedByItsSupplier()
    const lower = machine.interruptible_nano_per_gpu_hour
    if (lower !== null && lower >= change.price)
      return failField(['pricePerGpuHourUsd'], 'interruptible_price_too_high')
  }
  // The machine of a host follows the host.
  const isHost = (await findHost(tx.db, id)) !== undefined
  if (isHost && change.draining !== undefined) {
    const moved = await moveHost(tx, id, change.draining ? 'draining' : 'ready', 'operator')
    if (!moved.ok) return moved
  }
  // Only while the owner is the same: the machine may be handed over at this moment.
  const stillOf = change.price === undefined ? undefined : machine.supplier_id
  const columns: Parameters<typeof changeMachine>[2] = {
    ...(change.supplierId === undefined ? {} : { supplierId: change.supplierId }),
    ...(change.listed === undefined ? {} : { listed: change.listed }),
    ...(change.price === undefined ? {} : { price: change.price }),
    ...(change.draining === undefined || isHost ? {} : { status: change.draining ? 'node_draining' : 'node_ready' }),
    ...(change.gpusSick === undefined ? {} : { gpusWithdrawn: [...new Set(change.gpusSick)].sort((a, b) => a - b) }),
  }
  const changed = await changeMachine(tx, id, columns, stillOf)
  if (changed === undefined) return change.price === undefined ? noMachine() : pricedByItsSupplier()
  const { reason, price, ...rest } = change
  const detail = { ...rest, ...(price === undefined ? {} : { pricePerGpuHourUsd: formatUsd(price) }) }
  await writeAudit(tx, { actor: actor.keyId, action: 'machine.change', subject: `machine:${id}`, reason, detail })
  return ok(changed)
}
