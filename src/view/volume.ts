/**
 * Volumes: states and their labels. The API calls every volume that is not usable `inactive`; the reason that comes with
 * it shows which state of `domain/volume.ts` it is in.
 */
import type { Reply } from '../client/client.ts'
import { volumeSize } from '../contract/volume.ts'
import type { RentalKind } from '../domain/rental.ts'
import { isSharedWith, isUsableIn, volumeMoves, type VolumeState } from '../domain/volume.ts'
import { number } from './number.ts'
import type { Tone } from './tone.ts'

export type Volume = Reply<'listVolumes'>[number]
export type Mounted = Volume['mounts'][number]

const suspensions: readonly string[] = ['balance_empty', 'spending_limit']
const failures: readonly string[] = ['engine_failure', 'no_storage_capacity', 'rejected_by_provider']

export function volumeState({ status, meta }: Pick<Volume, 'status' | 'meta'>): VolumeState {
  if (status === 'active' || status === 'unknown') return status
  const reason = meta.termination_reason
  if (reason === undefined) return 'creating'
  if (failures.includes(reason)) return 'failed'
  return suspensions.includes(reason) ? 'suspended' : 'deleting'
}

export const volumeLabels = {
  creating: { tone: 'info', hint: 'The volume is being created.' },
  active: { tone: 'good', hint: undefined },
  suspended: { tone: 'warn', hint: 'The balance is empty. Add money within seven days to keep the volume.' },
  unknown: {
    tone: 'bad',
    hint: 'The data cannot be found right now. Billing is paused and the operator has been notified.',
  },
  deleting: { tone: 'info', hint: 'The volume is being deleted. Billing has stopped.' },
  deleted: { tone: 'plain', hint: undefined },
  failed: { tone: 'bad', hint: 'The volume could not be created and costs nothing. Delete it and try again.' },
} as const satisfies Record<VolumeState, { tone: Tone; hint: string | undefined }>

/** Returns why the volume cannot be attached to a running machine. undefined: it can. */
export function whyNotAttach(volume: Volume): string | undefined {
  const { attach, shared } = volume.supports
  if (attach.length === 0) return 'Rentals get this volume when they are ordered'
  const state = volumeState(volume)
  // A volume that is still being created is attached as soon as it exists.
  if (state !== 'active' && state !== 'creating') return `The volume is ${state}`
  return !shared && volume.mounts.length > 0 ? 'The volume is in use. One machine at a time can have it' : undefined
}

/** Returns why the volume cannot be detached from this rental now. undefined: it can. */
export function whyNotDetach({ supports }: Volume, { kind, state }: Mounted): string | undefined {
  if (!supports.attach.includes(kind)) return `${kindNames[kind]} keeps its volumes until it ends`
  return state === 'detaching' ? 'The volume is being detached' : undefined
}

export function whyNotDelete(volume: Volume): string | undefined {
  const state = volumeState(volume)
  const next: readonly VolumeState[] = volumeMoves[state]
  return next.includes('deleting') ? whyInUse(volume) : `The volume is ${state}`
}

export function whyNotGrow(volume: Volume): string | undefined {
  const { supports, growingToGb, sizeGb } = volume
  const state = volumeState(volume)
  if (!supports.grow) return 'Volumes of this engine cannot grow'
  if (state !== 'active') return `The volume is ${state}`
  if (growingToGb !== null) return `The volume is growing to ${number(growingToGb)} GB`
  return sizeGb >= volumeSize.maxGb ? `Volumes have at most ${number(volumeSize.maxGb)} GB` : undefined
}

export function whyNotClone(volume: Volume): string | undefined {
  const { supports, growingToGb } = volume
  const state = volumeState(volume)
  if (!supports.clone) return 'Volumes of this engine cannot be copied'
  if (state !== 'active') return `The volume is ${state}`
  return growingToGb === null ? whyInUse(volume) : `The volume is growing to ${number(growingToGb)} GB`
}

function whyInUse({ mounts, supports }: Volume): string | undefined {
  if (mounts.length === 0) return undefined
  const fixed = mounts.find(({ kind }) => !supports.attach.includes(kind))
  return fixed === undefined ? 'Detach the volume first' : `Terminate ${rentalNameOf(fixed)} first, which uses it`
}

export function rentalNameOf({ label, name }: Pick<Mounted, 'label' | 'name'>): string {
  return label ?? name
}

const kindNames: Readonly<Record<RentalKind, string>> = {
  'virtual-machine': 'A virtual machine',
  'bare-metal': 'Bare metal',
  container: 'A container',
}

/** The place at which an order would run. */
export interface OrderPlace {
  readonly kind: RentalKind
  readonly region: string
  /** A machine of the marketplace. */
  readonly machine?: { readonly id: string; readonly providerId: Volume['providerId'] }
}

/** Whether an order at this place could have the volume, if nothing else uses it. */
export function isUsableAt(volume: Volume, { kind, region, machine }: OrderPlace): boolean {
  const state = volumeState(volume)
  if (state !== 'active' && state !== 'creating') return false
  if (!volume.supports.kinds.includes(kind) || !isUsableIn(volume.region, region)) return false
  if (machine === undefined) return true
  return volume.providerId === machine.providerId && (volume.nodeName === null || volume.nodeName === machine.id)
}

/** undefined: an order can have it now, with this access. */
export function whyNotOrder(
  { mounts, supports, ...volume }: Volume,
  order: { readonly kind: RentalKind; readonly readOnly: boolean },
): string | undefined {
  const state = volumeState(volume)
  if (state !== 'active') return state
  if (supports.shared || isSharedWith(mounts, order)) return undefined
  return `in use by ${mounts.map(rentalNameOf).join(', ')}`
}
