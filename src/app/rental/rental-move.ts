/**
 * A start on another machine: where a stopped rental finds GPUs and room for its disk when its own machine has none. Only
 * machines of the same supplier come into question, since the other one sees the disk, and the price stays.
 */
import { fail, ok, type Result } from '../../contract/result.ts'
import { shareOfMachine } from '../../domain/machine.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import { perGpuHour, type Term } from '../../domain/term.ts'
import { findMachine, type Machine } from '../../store/machine/machine.ts'
import { listCheapest } from '../../store/machine/listed-machine.ts'
import type { Tx } from '../../store/platform/database.ts'
import { claimShare } from '../../store/rental/rental-engine.ts'
import type { Rental } from '../../store/rental/rental.ts'
import { hasAttachments } from '../../store/volume/volume.ts'
import type { App } from '../app.ts'

/** Machines to try: one fails only if a concurrent order takes its GPUs, or if it is too small. */
const MAX_ATTEMPTS = 100

/** Claims GPUs for a locked, stopped rental on another machine. Returns what its spec becomes. */
export async function claimElsewhere(app: App, tx: Tx, rental: Rental, term: Term): Promise<Result<RentalSpec>> {
  const { spec, gpu_count: gpuCount } = rental
  const [node] = spec.nodes
  const home = node === undefined ? undefined : await findMachine(tx.db, node.machineId)
  const canMove = app.drivers.get(rental.driver)?.traits.power.move?.includes(rental.kind) === true
  if (!canMove || node === undefined || home === undefined) return fail('cannot_move', { rentalId: rental.id })
  if (await hasAttachments(tx.db, rental.id)) return fail('moves_without_volumes')
  const machines = await listCheapest(tx.db, {
    gpuModel: spec.gpuModel,
    gpuCount,
    driver: rental.driver,
    region: rental.region,
    maxPrice: perGpuHour(term.costPerHour, gpuCount),
    limit: MAX_ATTEMPTS,
  })
  for (const { id, cluster_name: clusterName } of machines) {
    const machine = id === home.id ? undefined : await findMachine(tx.db, id)
    if (machine === undefined || !isEnough(machine, home, spec)) continue
    const gpuIndexes = await claimShare(tx, rental, id)
    if (gpuIndexes === undefined) continue
    const movesFrom = { ...node, clusterName: spec.clusterName }
    return ok({ ...spec, clusterName, nodes: [{ machineId: id, gpuIndexes }], movesFrom })
  }
  return fail('no_gpu_elsewhere', { gpus: `${gpuCount} × ${spec.gpuModel}` })
}

/** Whether a machine can be what the other one was for this rental. */
function isEnough(machine: Machine, home: Machine, { gpuCount, resources }: RentalSpec): boolean {
  const share = shareOfMachine(machine.hardware, gpuCount, machine.gpus_total)
  return (
    machine.supplier_id === home.supplier_id &&
    machine.hardware.cpuArch === home.hardware.cpuArch &&
    share.cpuCount >= resources.cpuCount &&
    share.ramGb >= resources.ramGb
  )
}

/** The spec of a rental once its provider shows which machine has its disk. undefined: it has not moved, or not yet. */
export function specWhereItIs(spec: RentalSpec, machineId: string | undefined): RentalSpec | undefined {
  const { movesFrom, ...settled } = spec
  if (movesFrom === undefined || machineId === undefined) return undefined
  if (machineId !== movesFrom.machineId) return settled
  const { clusterName, ...node } = movesFrom
  return { ...settled, clusterName, nodes: [node] }
}
