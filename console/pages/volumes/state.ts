/**
 * Where a volume is in its life. The interface has one word for all that is not `active`; the reason and the times that
 * come with it tell which of the states of the domain's table it is.
 */
import type { Reply } from '../../../src/client/client.ts'
import { volumeMoves, type VolumeState } from '../../../src/domain/volume.ts'
import type { Tone } from '../../ui/badge.tsx'

export type Volume = Reply<'listVolumes'>[number]

/** Why the meter suspends one. */
const suspendedFor: readonly string[] = ['balance_empty', 'spending_limit']

/** Why one could not be created. */
const failedFor: readonly string[] = ['engine_failure', 'no_storage_capacity', 'refused_by_engine']

export function stateOf({ status, meta }: Pick<Volume, 'status' | 'meta'>): VolumeState {
  if (status === 'active' || status === 'unknown') return status
  const reason = meta.termination_reason
  if (reason === undefined) return 'creating'
  if (failedFor.includes(reason)) return 'failed'
  return suspendedFor.includes(reason) ? 'suspended' : 'deleting'
}

export const stateWords = {
  creating: { tone: 'info', says: 'It is being made.' },
  active: { tone: 'good', says: undefined },
  suspended: { tone: 'warn', says: 'It is not paid. It comes back with the balance, and is kept for seven days.' },
  unknown: {
    tone: 'bad',
    says: 'Its data cannot be found right now. It costs nothing until it is found again; the operator has been told.',
  },
  deleting: { tone: 'info', says: 'It is being deleted and costs nothing any more.' },
  deleted: { tone: 'plain', says: undefined },
  failed: { tone: 'bad', says: 'It could not be made and costs nothing. Delete it and try again.' },
} as const satisfies Record<VolumeState, { tone: Tone; says: string | undefined }>

/** undefined: it may be attached. */
export function whyNotAttach(volume: Volume): string | undefined {
  const state = stateOf(volume)
  // As the server has it: one that is being made is attached when it is there.
  if (state === 'active' || state === 'creating') return undefined
  return `It is ${state}`
}

export function whyNotDetach({ attachedRentals }: Volume): string | undefined {
  return attachedRentals.length === 0 ? 'It is not attached' : undefined
}

export function whyNotDelete(volume: Volume): string | undefined {
  const next: readonly VolumeState[] = volumeMoves[stateOf(volume)]
  if (!next.includes('deleting')) return `It is ${stateOf(volume)}`
  return volume.attachedRentals.length > 0 ? 'Detach it first' : undefined
}
