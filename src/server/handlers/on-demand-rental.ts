/** The operations of virtual-machine and bare-metal rentals that the service interface specifies, over HTTP. */
import { limits } from '../../base/limits.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { OperationId } from '../../contract/api.ts'
import type { Actor, App } from '../../app/app.ts'
import { createOnce } from '../../app/idempotency.ts'
import { orderBareMetal, orderVirtualMachine } from '../../app/order/order.ts'
import { ownRental, terminateOwnRental } from '../../app/rental/own-rental.ts'
import { requestReservation } from '../../app/order/reservation.ts'
import { noRoomAsked, readVolumeRoom } from '../../app/order/storage-option.ts'
import { listPeople } from '../../store/account/account.ts'
import { transact, type Db } from '../../store/platform/database.ts'
import { readMachines } from '../../store/machine/machine.ts'
import { findRental, listRentals, readTerms, type Rental } from '../../store/rental/rental.ts'
import { listAttachments, readVolumes } from '../../store/volume/volume.ts'
import type { Handlers } from '../http/handler.ts'
import { readDetailFacts } from './rental-facts.ts'
import { activeRental, rentalDetail, rentalRecord, type RentalContext } from './rental-view.ts'

export const onDemandRentalHandlers = {
  createBareMetalRental: async (app, request) => {
    const { actor, body } = request
    const room = body.storageVolume?.isNew === true ? await readVolumeRoom(app, body.region) : noRoomAsked
    return createOnce(app, actor, once(request), async (tx) => {
      const rental = await orderBareMetal(app, tx, actor, body, room)
      return rental.ok ? ok(rentalRecord(app, rental.value)) : rental
    })
  },

  createVirtualMachineRental: (app, request) =>
    createOnce(app, request.actor, once(request), async (tx) => {
      const rental = await orderVirtualMachine(app, tx, request.actor, request.body)
      return rental.ok ? ok(rentalRecord(app, rental.value)) : rental
    }),

  listBareMetalRentals: async (app, { actor, query }) => {
    const { rentals, around: context } = await readActive(app, actor, 'bare-metal', query)
    return ok(rentals.map((rental) => activeRental<'bare-metal'>(app, rental, context)))
  },

  listVirtualMachineRentals: async (app, { actor, query }) => {
    const { rentals, around: context } = await readActive(app, actor, 'virtual-machine', query)
    return ok(rentals.map((rental) => activeRental<'virtual-machine'>(app, rental, context)))
  },

  terminateBareMetalRental: (app, { actor, body }) => terminate(app, actor, body, 'bare-metal'),
  terminateVirtualMachineRental: (app, { actor, body }) => terminate(app, actor, body, 'virtual-machine'),

  getOnDemandRental: async (app, { actor, params }) => {
    const rental = ownRental(await findRental(app.database.db, params.id), actor)
    if (!rental.ok) return rental
    const [context, facts] = await Promise.all([
      readRentalContext(app.database.db, [rental.value]),
      readDetailFacts(app, rental.value),
    ])
    return ok(rentalDetail(app, rental.value, context, facts))
  },

  requestReservation: async (app, { actor, body }) => {
    // The interface accepts fractions; GPUs are whole.
    const gpuCount = Math.ceil(body.gpuCount)
    await transact(app.database, (tx) => requestReservation(tx, actor, { ...body, gpuCount }))
    return ok({ message: `Your request for ${gpuCount} GPUs was sent to the operator` })
  },
} satisfies Partial<Handlers>

function once(request: { operation: OperationId; body: unknown; idempotencyKey: string | undefined }) {
  return { key: request.idempotencyKey, operation: request.operation, request: request.body }
}

async function readActive(
  app: App,
  actor: Actor,
  kind: 'bare-metal' | 'virtual-machine',
  query: { limit?: number | undefined; before?: number | undefined },
) {
  const rentals = await listRentals(app.database.db, {
    accountId: actor.accountId,
    kind,
    which: 'not-ended',
    ...(query.before === undefined ? {} : { before: query.before }),
    limit: query.limit ?? limits.plainListRows,
  })
  return { rentals, around: await readRentalContext(app.database.db, rentals) }
}

async function readRentalContext(db: Db, rentals: readonly Rental[]): Promise<RentalContext> {
  const ids = rentals.map((rental) => rental.id)
  const ownAttachments = await listAttachments(db, { rentalIds: ids })
  const volumeIds = [...new Set(ownAttachments.map((one) => one.volumeId))]
  const machineIds = rentals.flatMap((rental) => rental.spec.nodes.slice(0, 1).map((node) => node.machineId))
  const [terms, people, attachments, volumes, machines] = await Promise.all([
    readTerms(db, ids),
    listPeople(db, [...new Set(rentals.map((rental) => rental.person_id))]),
    // All attachments of these volumes: the record names every rental that a volume is attached to.
    listAttachments(db, { volumeIds }),
    readVolumes(db, volumeIds),
    readMachines(db, [...new Set(machineIds)]),
  ])
  return { terms, people, attachments, volumes, machines }
}

async function terminate(
  app: App,
  actor: Actor,
  body: { rentalId: number; reason?: string | undefined },
  kind: 'bare-metal' | 'virtual-machine',
): Promise<Result<{ message: string; rentalId: number }>> {
  const { rentalId, reason: note } = body
  const ended = await transact(app.database, (tx) => terminateOwnRental(tx, actor, { rentalId, kind, note }))
  return ended.ok ? ok({ message: 'Rental successfully terminated', rentalId }) : ended
}
