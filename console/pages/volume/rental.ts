/** Machines that volumes can be attached to while they run. */
import { isLiving } from '../../../src/domain/rental.ts'
import type { RentalSummary } from '../../../src/contract/rental.ts'
import type { Volume } from '../../../src/view/volume.ts'
import { useCall } from '../../api/query.ts'

/** Machines that this volume can be attached to; undefined: still loading. */
export function useCarriers(volume: Volume): readonly RentalSummary[] | undefined {
  return useCall('listRentals').data?.rentals.filter(
    ({ id, kind, state, region, providerId }) =>
      isLiving(state) &&
      region === volume.region &&
      providerId === volume.providerId &&
      volume.supports.attach.includes(kind) &&
      !volume.attachedRentals.includes(id),
  )
}
