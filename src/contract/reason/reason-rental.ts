/** Reasons about orders, rentals, instances and storage volumes. */
import { counted } from '../../base/counted.ts'
import { formatUsdExactly, formatUsdForPeople, type NanoUsd } from '../../base/money.ts'
import { conflict, invalid, noCapacity, notFound, unavailable } from './reason-entry.ts'

type RentalState = {
  readonly rentalId: number
  readonly status: string
}

type DiscountFault = 'on_demand' | 'format' | { readonly days: number; readonly maxPercentage: number }

function describeDiscountFault(fault: DiscountFault): string {
  if (fault === 'on_demand') return 'An on-demand rental has no discount.'
  if (fault === 'format') return 'A discount must be zero or more and have at most two decimals.'
  return `The discount for a ${fault.days}-day term is at most ${fault.maxPercentage}%.`
}

const simulatedLacks = {
  login: 'This machine is simulated, so there is nothing to log in to.',
  logs: 'This machine is simulated, so it has no logs.',
  ports: 'This machine is simulated, so nothing answers on its ports.',
} as const

const kindPlurals: Readonly<Record<string, string>> = {
  container: 'containers',
  'virtual-machine': 'virtual machines',
  'bare-metal': 'bare metal',
}

/** `rental 17`, `rentals 17, 18` */
function rentalsText(ids: readonly number[]): string {
  return `${ids.length === 1 ? 'rental' : 'rentals'} ${ids.join(', ')}`
}

/** Names the place with too little room for a volume. */
export interface StorageRoom {
  readonly freeGb: number
  readonly sizeGb: number
  readonly region: string
  /** `machine`: the one that the volume is on or for. `largest_machine`: a volume is on one machine of the region. */
  readonly place: 'region' | 'machine' | 'largest_machine'
}

const roomTexts: Record<StorageRoom['place'], (room: Pick<StorageRoom, 'freeGb' | 'region'>) => string> = {
  region: ({ freeGb, region }) => `Only ${freeGb} GB of storage is free in ${region}`,
  machine: ({ freeGb }) => `The machine of the volume has only ${freeGb} GB free for volumes`,
  largest_machine: ({ freeGb, region }) =>
    `A volume is on one machine, and the one with the most room in ${region} has only ${freeGb} GB free for volumes`,
}

export const rentalReasons = {
  no_capacity: noCapacity(
    ({ gpus, where }: { readonly gpus: string; readonly where: string; readonly waitSeconds?: number }) =>
      `Not enough free GPUs ${where} for ${gpus}.`,
    ({ waitSeconds }) =>
      waitSeconds === undefined
        ? 'Choose another option, or try again later.'
        : `Interruptible rentals can make room in ${waitSeconds} seconds: set \`maxWaitSeconds\` to that or more. Or choose another option.`,
  ),
  not_interruptible: invalid(
    ({ machine }: { readonly machine: string }) => `Machine ${machine} has no price for interruptible rentals.`,
    'Leave out `interruptible`, or choose a machine that has one.',
  ),
  no_spare_gpus: noCapacity(
    ({ gpus, where }: { readonly gpus: string; readonly where: string }) =>
      `The rollout needs spare GPUs, but not enough are free ${where} for ${gpus}. The old version keeps serving.`,
    'Wait for free GPUs, or roll out in place, which ends an old replica first.',
  ),
  job_not_found: notFound('Job not found.'),
  job_schedule_not_found: notFound('Schedule not found.'),
  job_output_not_found: notFound('The job has no such output.'),
  job_path_reserved: invalid(
    ({ path }: { readonly path: string }) => `Jobs have their own file ${path}.`,
    'Use `input` for it, and another path for the file.',
  ),
  job_only_simulated: noCapacity(
    ({ gpus }: { readonly gpus: string }) =>
      `The only free machines for ${gpus} are simulated, and jobs run on those only when they are named.`,
    'Name one with gpus.machineId, or join a machine with "berth agent run".',
  ),
  option_not_offered: invalid(
    (order: { readonly option: string; readonly region: string } | { readonly gpuCounts: readonly number[] }) =>
      'gpuCounts' in order
        ? `gpuCount must be one of ${order.gpuCounts.join(', ')} for this option.`
        : `${order.option} is not offered in ${order.region}.`,
    'See the rental options for what is offered.',
  ),
  region_disabled: invalid(
    ({ option, region }: { readonly option: string; readonly region: string }) =>
      `${option} is not offered in ${region} at the moment.`,
    'Choose another region.',
  ),
  price_changed: invalid(
    ({ perHour, max }: { readonly perHour: NanoUsd; readonly max: NanoUsd }) =>
      `The price is now ${formatUsdExactly(perHour)}/hr, above your maximum of ${formatUsdExactly(max)}/hr.`,
    'Nothing was ordered. Check the new price and order again.',
  ),
  no_ssh_key: invalid('The account has no SSH key, so nobody could log in.', 'Add an SSH key first.'),
  time_in_past: invalid('The time must be in the future.'),
  empty_time_range: invalid('The start must be before the end, and in the past.'),
  discount_not_granted: invalid(({ fault }: { readonly fault: DiscountFault }) => describeDiscountFault(fault)),
  term_period_missing: invalid('`termPeriodDays` is required for a reserved rental.'),
  term_not_offered: invalid(
    ({ days, offered }: { readonly days: number; readonly offered: readonly number[] }) =>
      `A ${days}-day term is not offered. Available terms in days: ${offered.join(', ') || 'none'}.`,
  ),
  limit_below_term: invalid(
    ({ total }: { readonly total: NanoUsd }) =>
      `The reserved term costs ${formatUsdForPeople(total)}, more than the spending limit.`,
    'Set a limit that covers the whole term.',
  ),
  option_not_supported: invalid(
    ({ option, kind }: { readonly option: string; readonly kind: string }) =>
      `\`${option}\` is not available for ${kindPlurals[kind] ?? kind}.`,
  ),
  idle_gpus_not_measured: invalid(
    'The GPUs of this machine are simulated and have no load, so an idle rule would never trigger.',
    'Leave out `idle`, or choose a machine with real GPUs. An end time or a spending limit ends the rental as well.',
  ),
  idle_not_measured: invalid(
    'Machines of this kind do not report whether they are in use, so an idle rule would never trigger.',
    'Leave out `idle`. An end time or a spending limit ends the rental as well.',
  ),
  disk_too_large: invalid(
    ({ diskGb, maxGb }: { readonly diskGb: number; readonly maxGb: number }) =>
      `A disk of ${diskGb} GB does not fit: these GPUs come with at most ${maxGb} GB.`,
    'Choose a smaller disk or attach a volume.',
  ),
  secret_not_found: notFound(
    ({ name }: { readonly name: string; readonly isReference?: boolean }) => `Secret ${name} not found.`,
    ({ isReference }) => (isReference === true ? 'Create it first, or correct the reference.' : 'Check the name.'),
  ),
  secret_in_use: conflict(
    ({ rentalIds }: { readonly rentalIds: readonly number[] }) => `The secret is used by ${rentalsText(rentalIds)}.`,
    'Terminate the rentals first, or replace the value of the secret instead.',
  ),
  template_not_found: notFound(({ id }: { readonly id: string }) => `Template ${id} not found.`),
  template_param_missing: invalid(
    ({ param }: { readonly param: string }) => `The template needs the environment variable ${param}.`,
  ),
  template_secrets_not_named: invalid(
    ({ secrets }: { readonly secrets: readonly string[] }) =>
      `The template is not yours and uses your ${secrets.length === 1 ? 'secret' : 'secrets'} ${secrets.join(', ')}.`,
    'Name the secrets that it may use in `secrets`.',
  ),
  template_version_missing: invalid(
    ({ id }: { readonly id: string; readonly version: number }) =>
      `The template ${id} belongs to another account, which may change it at any time.`,
    ({ id, version }) => `Look at it and order the version that you have seen, such as ${id}@${version}.`,
  ),
  gpu_too_small: invalid(
    ({ neededGb, gpuGb }: { readonly neededGb: number; readonly gpuGb: number }) =>
      `The template needs GPUs with ${neededGb} GB of memory; these have ${gpuGb} GB.`,
    'Choose a larger GPU.',
  ),
  registry_credential_not_found: notFound('Registry login not found.'),
  registry_credential_mismatch: invalid(
    ({ server }: { readonly server: string }) =>
      `The registry login is for ${server}, and the image of this order is not from there.`,
    'Leave out the login, or name an image of its registry.',
  ),
  registry_credential_in_use: conflict(
    ({ rentalIds }: { readonly rentalIds: readonly number[] }) =>
      `The registry login is used by ${rentalsText(rentalIds)}.`,
    'Terminate the rentals first.',
  ),
  rental_not_found: notFound('Rental not found.'),
  group_not_found: notFound('Group not found.'),
  already_terminated: conflict(({ rentalId, status }: RentalState) => `Rental ${rentalId} is already ${status}.`),
  not_running: conflict(({ rentalId, status }: RentalState) => `Rental ${rentalId} is ${status}, not Running.`),
  not_stopped: conflict(
    ({ rentalId, status }: RentalState) => `Rental ${rentalId} is ${status}, not Stopped.`,
    'Try again when it is stopped.',
  ),
  cannot_stop: conflict(
    ({ rentalId }: { readonly rentalId: number }) =>
      `The engine of rental ${rentalId} cannot stop it and keep its disk.`,
    'Terminate it if you no longer need it.',
  ),
  cannot_reboot: conflict(
    ({ rentalId }: { readonly rentalId: number }) => `The engine of rental ${rentalId} cannot reboot it.`,
    'Reboot it from within the machine.',
  ),
  reserved_not_stoppable: conflict(
    'A reserved rental cannot be stopped: its GPUs are paid for until the term ends.',
    'Reboot it, or terminate it and see what ending early costs.',
  ),
  no_gpu_on_host: noCapacity(
    ({ gpus, free }: { readonly gpus: number; readonly free: number }) =>
      `The host of this rental has ${counted(free, 'free GPU')}; it needs ${gpus}. Its disk is kept.`,
    'Start it with `ifNoGpu`: `wait` starts it as soon as they are free, `cpuOnly` without GPUs, to fetch its files, `move` on another machine, with its disk. Or terminate it and rent elsewhere.',
  ),
  no_room_without_gpus: noCapacity(
    'The host of this rental does not answer, or runs as many rentals without GPUs as it can. Its disk is kept.',
    'Try again later.',
  ),
  cannot_move: conflict(
    ({ rentalId }: { readonly rentalId: number }) =>
      `Rental ${rentalId} cannot start on another machine: only containers on hosts can.`,
    'Wait for free GPUs, or start it without GPUs to fetch its files.',
  ),
  moves_without_volumes: conflict(
    'A rental with storage volumes cannot start on another machine: they stay on its host.',
    'Wait for free GPUs, or start it without GPUs to fetch its files.',
  ),
  no_gpu_elsewhere: noCapacity(
    ({ gpus }: { readonly gpus: string }) =>
      `No other machine of the same supplier in the region has ${gpus} and room for the disk at this price. The disk is kept.`,
    'Wait for free GPUs, or start it without GPUs to fetch its files.',
  ),
  runs_without_gpus: conflict(
    ({ rentalId }: { readonly rentalId: number }) => `Rental ${rentalId} runs without its GPUs.`,
    'Stop it, and start it again when its host has enough free GPUs.',
  ),
  rental_not_running: invalid(
    ({ rentalId, status }: RentalState) =>
      `Rental ${rentalId} is ${status}, so no storage volume can be attached to it.`,
  ),
  simulated_machine: conflict(
    ({ lacks }: { readonly lacks: keyof typeof simulatedLacks }) => simulatedLacks[lacks],
    'Rent a machine that is not simulated.',
  ),
  host_not_connected: unavailable('The host of this machine is not connected right now.', 'Try again in a moment.'),
  no_hosts: unavailable('This server is not connected to any host.'),

  volume_not_found: notFound(({ id }: { readonly id: number }) => `Storage volume ${id} not found.`),
  volume_not_active: invalid(
    ({ id, state }: { readonly id: number; readonly state: string }) => `Storage volume ${id} is ${state}.`,
  ),
  volume_attached: conflict(
    ({ rentalIds }: { readonly rentalIds: readonly number[] }) =>
      `The storage volume is attached to ${rentalsText(rentalIds)}.`,
    'Detach it first; a container has to be terminated.',
  ),
  not_attached: invalid(
    ({ rentalId }: { readonly rentalId: number }) => `The storage volume is not attached to rental ${rentalId}.`,
  ),
  not_bare_metal: invalid(
    ({ rentalId }: { readonly rentalId: number }) => `Storage volumes cannot be attached to rental ${rentalId}.`,
    'Volumes can be attached to bare-metal rentals, and disks to virtual machines.',
  ),
  region_mismatch: invalid(
    ({
      region,
      rental,
    }: {
      readonly region: string
      readonly rental?: { readonly id: number; readonly region: string }
    }) =>
      rental === undefined
        ? `The storage volume is in ${region}.`
        : `Rental ${rental.id} is in ${rental.region}, but the storage volume is in ${region}.`,
    'A volume and its rentals must be in the same region.',
  ),
  node_region_mismatch: invalid(
    ({ node, region }: { readonly node: string; readonly region: string }) => `Node ${node} is in ${region}.`,
  ),
  provider_mismatch: invalid(
    'The storage volume and the rental are on different engines.',
    'Use a volume on the same engine, or rent without it.',
  ),
  cluster_mismatch: invalid(
    ({ cluster }: { readonly cluster: string }) => `The storage volume is in cluster ${cluster}.`,
    'Rent on a machine of that cluster.',
  ),
  host_mismatch: invalid(
    ({ host, rentalId }: { readonly host: string; readonly rentalId?: number }) =>
      rentalId === undefined
        ? `The storage volume is on machine ${host}.`
        : `The disk is on host ${host}, but rental ${rentalId} is not.`,
    'Rent on that machine.',
  ),
  volume_kind: invalid(
    ({ id, kind }: { readonly id: number; readonly kind: string }) =>
      `Storage volume ${id} cannot be attached to ${kindPlurals[kind] ?? kind}.`,
    'Create a volume for the machine that you rent.',
  ),
  volume_in_use: invalid(
    ({ id, rentalIds }: { readonly id: number; readonly rentalIds: readonly number[] }) =>
      `Storage volume ${id} is attached to ${rentalsText(rentalIds)}.`,
    'Only containers can share it, and only if all of them mount it read-only.',
  ),
  duplicate_volume: invalid(({ id }: { readonly id: number }) => `Storage volume ${id} is listed twice.`),
  mount_path_in_use: invalid(
    ({ path, other }: { readonly path: string; readonly other: string }) =>
      `${path} and ${other} overlap: a volume cannot be mounted inside another one.`,
  ),
  volume_fixed: conflict(
    ({ rentalId }: { readonly rentalId: number }) => `The volumes of rental ${rentalId} are fixed when it is ordered.`,
    'Terminate it, and order the next one with the volumes that it needs.',
  ),
  volume_not_larger: invalid(
    ({ sizeGb }: { readonly sizeGb: number }) => `The storage volume already has ${sizeGb} GB; it can only grow.`,
  ),
  volume_growing: conflict(
    ({ id, sizeGb }: { readonly id: number; readonly sizeGb: number }) =>
      `Storage volume ${id} is already growing to ${sizeGb} GB.`,
    'Wait until it has its new size.',
  ),
  volume_being_copied: invalid(
    ({ id }: { readonly id: number }) => `Storage volume ${id} is being copied.`,
    'Wait until the copy is ready.',
  ),
  volume_operation_unsupported: invalid(
    ({ id, operation }: { readonly id: number; readonly operation: 'grow' | 'clone' }) =>
      `The engine of storage volume ${id} cannot ${operation} volumes.`,
    'Create another volume and copy the data.',
  ),
  disk_in_use: invalid('A disk can be attached to only one virtual machine at a time.', 'Detach it first.'),
  too_many_attachments: invalid(
    ({ max }: { readonly max: number }) => `A storage volume can be attached to at most ${max} rentals.`,
  ),
  no_storage_capacity: noCapacity(
    ({ freeGb, sizeGb, region, place }: StorageRoom) =>
      `${roomTexts[place]({ freeGb, region })}; the request needs ${sizeGb} GB.`,
    'Choose a smaller size, another machine or another region.',
  ),

  node_not_found: notFound(
    ({ node, cluster }: { readonly node: string; readonly cluster: string }) =>
      `Node ${node} not found in cluster ${cluster}.`,
  ),
  node_not_ready: invalid(({ node }: { readonly node: string }) => `Node ${node} is not for sale right now.`),
  too_many_ports: invalid(({ max }: { readonly max: number }) => `An instance can have at most ${max} ports.`),
  instance_not_found: notFound(({ id }: { readonly id: string }) => `Instance ${id} not found.`),
} as const
