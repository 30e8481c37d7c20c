/** The life of a volume, and what the interface calls its states. */
import { DAY_MS } from '../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'
import type { VolumeStatus } from '../contract/volume.ts'

/** `unknown`: its engine no longer shows its data. It costs nothing until it is shown again. */
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

/** A volume that can no longer be paid is kept this long before its data goes. */
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
