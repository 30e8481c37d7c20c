/** The life cycle of a volume, and the API names of its states. */
import { DAY_MS } from '../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'
import { storageRegion } from '../contract/region.ts'
import type { VolumeStatus } from '../contract/volume.ts'
import type { RentalKind } from './rental.ts'

/** `unknown`: the provider no longer reports the data. The volume is free until the data is reported again. */
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

/** A machine outside of the storage regions, such as a supplier's own, can use volumes of any region. */
export function isUsableIn(volumeRegion: string, machineRegion: string): boolean {
  return volumeRegion === machineRegion || !storageRegion.safeParse(machineRegion).success
}

/** Returns the first mount path that equals an earlier one, or lies inside or around it. undefined: none does. */
export function overlappingMounts(
  paths: readonly string[],
): { readonly index: number; readonly path: string; readonly other: string } | undefined {
  for (const [index, path] of paths.entries()) {
    const other = paths.slice(0, index).find((one) => `${path}/`.startsWith(`${one}/`) || one.startsWith(`${path}/`))
    if (other !== undefined) return { index, path, other }
  }
  return undefined
}

/**
 * Whether a volume on the disk of a host can be attached to one more machine there: it has one writer, or containers that
 * all read. A virtual machine never shares a disk.
 */
export function isSharedWith(
  attached: ReadonlyArray<{ readonly kind: RentalKind; readonly readOnly: boolean }>,
  next: { readonly kind: RentalKind; readonly readOnly: boolean },
): boolean {
  return attached.length === 0 || [...attached, next].every((one) => one.kind === 'container' && one.readOnly)
}
