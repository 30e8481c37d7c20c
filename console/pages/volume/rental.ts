/** Machines that volumes can be attached to while they run. */
import type { Reply } from '../../../src/client/client.ts'
import { isLiving } from '../../../src/domain/rental.ts'
import type { Volume } from '../../../src/view/volume.ts'
import { useCall } from '../../api/query.ts'

export type Carrier = Reply<'listBareMetalRentals'>[number] | Reply<'listVirtualMachineRentals'>[number]

/** Machines that this volume can be attached to; undefined: still loading. */
export function useCarriers(volume: Volume): readonly Carrier[] | undefined {
  const metal = useCall('listBareMetalRentals').data
  const machines = useCall('listVirtualMachineRentals').data
  if (metal === undefined || machines === undefined) return undefined
  const all: readonly Carrier[] = [...metal, ...machines]
  return all.filter(
    (rental) =>
      rental.supportsFeature.attachedStorage &&
      isLiving(rental.status) &&
      rental.region === volume.region &&
      volume.supports.attach.includes(rental.rentalType) &&
      rental.providerData.providerId === volume.providerId &&
      !volume.attachedRentals.includes(rental.id),
  )
}

export function nameOf(carrier: Carrier): string {
  return carrier.label ?? carrier.name ?? `Rental ${carrier.id}`
}
