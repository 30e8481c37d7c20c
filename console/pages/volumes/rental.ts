/** Machines that volumes can be attached to. */
import type { Reply } from '../../../src/client/client.ts'
import { isLiving } from '../../../src/domain/rental.ts'
import { useCall } from '../../api/query.ts'

export type Carrier = Reply<'listBareMetalRentals'>[number] | Reply<'listVirtualMachineRentals'>[number]

/** Those that support volumes and have not ended; undefined: still loading. */
export function useCarriers(): readonly Carrier[] | undefined {
  const metal = useCall('listBareMetalRentals').data
  const machines = useCall('listVirtualMachineRentals').data
  if (metal === undefined || machines === undefined) return undefined
  const all: readonly Carrier[] = [...metal, ...machines]
  return all.filter((rental) => rental.supportsFeature.attachedStorage && isLiving(rental.status))
}

export function nameOf(carrier: Carrier): string {
  return carrier.label ?? carrier.name ?? `Rental ${carrier.id}`
}
