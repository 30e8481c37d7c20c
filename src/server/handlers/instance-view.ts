/** A marketplace instance as v2 shows it, and the fields of instances and machines that v1 and v2 share. */
import type { App } from '../../app/app.ts'
import { instanceStatus, isReachable, wireStatus } from '../../domain/rental.ts'
import type { Term } from '../../domain/term.ts'
import type { ListedMachine } from '../../store/machine/listed-machine.ts'
import type { Machine } from '../../store/machine/machine.ts'
import type { Rental } from '../../store/rental/rental.ts'
import { shareOf } from '../../app/rental/rental-power.ts'
import { stateFields } from './rental-state.ts'
import { detailFields, type DetailFacts } from './rental-view.ts'

export function instanceDetail(app: App, rental: Rental, machine: Machine, term: Term, facts: DetailFacts) {
  const { clusterName, region, gpuModel, image } = rental.spec
  return {
    rentalId: rental.id,
    name: rental.name,
    label: rental.label,
    status: wireStatus(rental.status),
    ...stateFields(app, rental, term),
    instanceStatus: instanceStatus(rental.status, rental.create_asked_at),
    createdAt: rental.created_at,
    startedAt: rental.started_at,
    terminatedAt: rental.terminated_at,
    machine: {
      clusterName,
      nodeName: machine.id,
      supplierId: shownSupplier(machine),
      region,
      gpuModel,
      simulated: machine.simulation !== null,
    },
    gpuCount: rental.gpu_count,
    resources: shareOf(rental).resources,
    image,
    pricePerHourUsd: term.costPerHour,
    sshCommand: sshCommand(rental),
    userMetadata: rental.user_metadata,
    ...detailFields(app, rental, term, facts),
  }
}

/** Empty until login is possible. */
export function sshCommand(rental: Rental): string {
  const ssh = rental.provider_data?.sshNetworking?.[0]
  return isReachable(rental.status) && ssh !== undefined ? `ssh ${ssh.user}@${ssh.host} -p ${ssh.port}` : ''
}

export function shownSupplier(machine: Pick<ListedMachine, 'supplier_id'>): string {
  return machine.supplier_id ?? 'house'
}
