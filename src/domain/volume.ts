/** The life cycle of a volume, and the API names of its states. */
import { DAY_MS } from '../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'
import type { VolumeStatus } from '../contract/volume.ts'

/** `unknown`: the engine no longer reports its data. It is free until the data is reported again. */
export type VolumeState = 'creating' | 'active' | 'suspended' | 'unknown' | 'deleting' | 'deleted' | 'failed'

export const volumeMoves = {
  creating: ['active', 'failed', 'deleting'],
  active: ['suspended', 'unknown', 'deleting'],
  suspended: ['active', 'deleting'],
  unknown: ['active', 'suspended', 'deleting'],
  deleting: ['deleted'],
  deleted: [],
  failed: ['deleting'],
} as const satisfies Record<VolumeState, readonly VolumeState[]>

/** Time until the data of an unpaid volume is deleted. */
export const SUSPENDED_KEPT_MS = 7 * DAY_MS

export function volumeStatus(state: VolumeState): VolumeStatus {
  switch (state) {
    case 'active':
      return 'active'
    case 'unknown':
      return 'unknown'
    case 'creating':
    case 'suspended':
    case 'deleting':
    case 'deleted':
    case 'failed':
      return 'inactive'
  }
}

export function volumePricePerHour(perGbHour: NanoUsd, sizeGb: number): NanoUsd {
  return nanoUsdOf(perGbHour * BigInt(sizeGb))
}
