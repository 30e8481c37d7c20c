/** The order of a rental, translated for the use cases of its kind, and their failures translated back. */
import type { Issue } from '../../base/issue.ts'
import { failField, type Failure, type Result } from '../../contract/result.ts'
import type { RentalOrder } from '../../contract/rental-order.ts'
import type { Actor, App } from '../../app/app.ts'
import { createCheapestInstance, createInstance } from '../../app/order/marketplace.ts'
import { orderBareMetal, orderVirtualMachine } from '../../app/order/order.ts'
import { noRoomAsked, readVolumeRoom, type VolumeRoom } from '../../app/order/storage-option.ts'
import { bestDiscounts } from '../../domain/term.ts'
import { readOrderedMachines } from '../../store/machine/machine.ts'
import { listReserveOptions } from '../../store/machine/price.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Rental } from '../../store/rental/rental.ts'

type OrderOf<Kind extends RentalOrder['kind']> = Extract<RentalOrder, { kind: Kind }>

/** Reads the free space for a new volume of the order, so that no transaction waits for the driver. */
export async function readRoomFor(app: App, order: RentalOrder): Promise<VolumeRoom> {
  if (order.kind !== 'bare-metal' || storageVolumeOf(order)?.isNew !== true) return noRoomAsked
  return readVolumeRoom(app, order.region)
}

export async function placeRental(
  app: App,
  tx: Tx,
  actor: Actor,
  order: RentalOrder,
  room: VolumeRoom,
): Promise<Result<Rental>> {
  const placed = await placeByKind(app, tx, actor, order, room)
  return placed.ok ? placed : inOrderNames(placed)
}

async function placeByKind(app: App, tx: Tx, actor: Actor, order: RentalOrder, room: VolumeRoom) {
  switch (order.kind) {
    case 'container':
      return placeContainer(app, tx, actor, order)
    case 'virtual-machine':
      return orderVirtualMachine(app, tx, actor, { ...order, ...(await termOf(tx, actor, order)) })
    case 'bare-metal': {
      const { volumes: _, newVolume: __, ...fields } = order
      const storageVolume = storageVolumeOf(order)
      return orderBareMetal(app, tx, actor, { ...fields, ...(await termOf(tx, actor, order)), storageVolume }, room)
    }
  }
}

async function placeContainer(app: App, tx: Tx, actor: Actor, order: OrderOf<'container'>): Promise<Result<Rental>> {
  const { machineId, gpuModel, image = null, ...fields } = order
  if (gpuModel !== undefined) return createCheapestInstance(app, tx, actor, { ...fields, image, gpuModel })
  if (machineId === undefined) throw new Error('the order names neither a machine nor a GPU')
  const machine = (await readOrderedMachines(tx.db, [machineId])).get(machineId)
  if (machine?.offering !== 'marketplace') return failField(['machineId'], 'machine_not_found')
  return createInstance(app, tx, actor, { ...fields, image, clusterName: machine.cluster_name, nodeName: machineId })
}

async function termOf(tx: Tx, actor: Actor, order: OrderOf<'virtual-machine' | 'bare-metal'>) {
  const { termPeriodDays: days, discountPercentage: discount, convertToOnDemandOnExpiry = true } = order
  if (days === undefined) {
    return { termType: 'on-demand' as const, discountPercentage: discount ?? 0, convertToOnDemandOnExpiry }
  }
  const terms = bestDiscounts(await listReserveOptions(tx.db, actor.accountId))
  const best = terms.find((term) => term.days === days)?.percentage ?? 0
  return { termType: 'reserved' as const, discountPercentage: discount ?? best, convertToOnDemandOnExpiry }
}

function storageVolumeOf({ volumes: [volume] = [], newVolume }: OrderOf<'bare-metal'>) {
  if (newVolume !== undefined) return { isNew: true as const, ...newVolume }
  return volume === undefined ? undefined : { isNew: false as const, id: volume.volumeId }
}

/** Translates field names of the use cases to those of the order. */
function inOrderNames(failure: Failure): Failure {
  if (failure.issues === undefined) return failure
  return { ...failure, issues: failure.issues.map((issue) => ({ ...issue, path: orderPath(issue.path) })) }
}

function orderPath([first, ...others]: Issue['path']): Issue['path'] {
  if (first === 'node_name') return ['machineId']
  if (first !== 'storageVolume') return first === undefined ? [] : [first, ...others]
  return others[0] === 'id' ? ['volumes', 0, 'volumeId'] : ['newVolume', ...others]
}
