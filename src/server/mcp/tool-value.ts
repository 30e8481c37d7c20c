/** The fields of rentals and deployments that tools show. They are chosen, so that no later field leaks into a conversation. */
import { z } from 'zod'
import type { Api } from '../../contract/api.ts'
import type { ReplyOf } from '../../contract/endpoint.ts'

type RentalOnWire = ReplyOf<Api['listRentals']>['rentals'][number]
type RentalInDetail = ReplyOf<Api['getRental']>

const rentalFields = {
  name: z.string(),
  label: z.string().nullable(),
  kind: z.string(),
  state: z.string(),
  gpu: z.string(),
  gpus: z.int(),
  region: z.string(),
  usdPerHour: z.string(),
  costSoFarUsd: z.string(),
}
export const listedRental = z.object(rentalFields)
export const rentalDetail = z.object({
  ...rentalFields,
  statusMessage: z.string().nullable(),
  image: z.string().nullable(),
  spendingLimitUsd: z.string().nullable(),
  endsAt: z.string().nullable(),
  stopsAt: z.string().nullable(),
  ssh: z.string().nullable(),
  addresses: z.array(z.string()),
  simulated: z.boolean(),
})
/** The result of an action. */
export const rentalAction = z.object({
  rental: z.string(),
  state: z.string(),
  costSoFarUsd: z.string(),
  endsAt: z.string().nullable(),
})

export function showRental(rental: RentalOnWire): z.output<typeof listedRental> {
  return {
    name: rental.name,
    label: rental.label,
    kind: rental.kind,
    state: rental.state,
    gpu: rental.gpuModel,
    gpus: rental.gpuCount,
    region: rental.region,
    usdPerHour: shortUsd(rental.pricePerHourUsd),
    costSoFarUsd: shortUsd(rental.costSoFarUsd),
  }
}

export function showRentalDetail(rental: RentalInDetail): z.output<typeof rentalDetail> {
  const { ssh, image } = rental
  return {
    ...showRental(rental),
    statusMessage: rental.statusMessage,
    image: image === null ? null : `${image.name}${image.tag === null ? '' : `:${image.tag}`}`,
    spendingLimitUsd: rental.spendingLimitUsd === null ? null : shortUsd(rental.spendingLimitUsd),
    endsAt: rental.autoTerminateAt,
    stopsAt: rental.stopAt,
    ssh: ssh === null ? null : `ssh ${ssh.user}@${ssh.host} -p ${ssh.port}`,
    addresses: rental.portMappings.map(({ port, host, publicPort }) => `${port}: ${host}:${publicPort}`),
    simulated: rental.simulated !== null,
  }
}

export function showAction(rental: RentalInDetail): z.output<typeof rentalAction> {
  return {
    rental: rental.name,
    state: rental.state,
    costSoFarUsd: shortUsd(rental.costSoFarUsd),
    endsAt: rental.autoTerminateAt ?? rental.stopAt,
  }
}

type DeploymentOnWire = Omit<ReplyOf<Api['getManagedDeployment']>, 'replicas'>

export const deploymentView = z.object({
  id: z.string(),
  model: z.string(),
  status: z.string(),
  message: z.string().nullable(),
  readyReplicas: z.int(),
  maxReplicas: z.int(),
  usdPerHour: z.string(),
})

export function showDeployment(one: DeploymentOnWire): z.output<typeof deploymentView> {
  return {
    id: one.id,
    model: one.model,
    status: one.status,
    message: one.message,
    readyReplicas: one.readyReplicas,
    maxReplicas: one.settings.replicas.max,
    usdPerHour: shortUsd(one.costPerHourUsd),
  }
}

/** `2.500000000` → `2.5`. */
export function shortUsd(amount: string): string {
  return amount.includes('.') ? amount.replace(/\.?0+$/, '') : amount
}
