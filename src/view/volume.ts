/**
 * Volumes: states and their labels. The API calls every volume that is not usable `inactive`; the reason that comes with
 * it shows which state of `domain/volume.ts` it is in.
 */
import type { Reply } from '../client/client.ts'
import { volumeMoves, type VolumeState } from '../domain/volume.ts'
import type { Tone } from './tone.ts'

export type Volume = Reply<'listVolumes'>[number]

const suspensions: readonly string[] = ['balance_empty', 'spending_limit']
const failures: readonly string[] = ['engine_failure', 'no_storage_capacity', 'refused_by_engine']

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

/** undefined: it can be attached. */
export function whyNotAttach(volume: Volume): string | undefined {
  const state = volumeState(volume)
  // A volume that is still being created is attached as soon as it exists.
  return state === 'active' || state === 'creating' ? undefined : `The volume is ${state}`
}

export function whyNotDetach({ attachedRentals }: Volume): string | undefined {
  return attachedRentals.length === 0 ? 'The volume is not attached' : undefined
}

export function whyNotDelete(volume: Volume): string | undefined {
  const state = volumeState(volume)
  const next: readonly VolumeState[] = volumeMoves[state]
  if (!next.includes('deleting')) return `The volume is ${state}`
  return volume.attachedRentals.length > 0 ? 'Detach the volume first' : undefined
}
