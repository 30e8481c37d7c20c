/** Rows of the operator's lists. */
import type { Reply } from '../../../src/client/client.ts'

export type FleetMachine = Reply<'listFleet'>['machines'][number]
export type FleetHost = Reply<'listHosts'>['hosts'][number]
export type AnyRental = Reply<'listAllRentals'>['rentals'][number]
export type AnyVolume = Reply<'listAllVolumes'>['volumes'][number]

/** Shows a name with its number, since names are not unique across accounts. */
export function NumberedName({ noun, id, name }: { noun: string; id: number; name: string }) {
  return (
    <span title={`${noun} ${id}`}>
      {name} <span className="text-muted">#{id}</span>
    </span>
  )
}
