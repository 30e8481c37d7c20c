/** Rows of the operator's lists. */
import type { Reply } from '../../../src/client/client.ts'

export type FleetMachine = Reply<'listFleet'>['machines'][number]
export type FleetHost = Reply<'listHosts'>['hosts'][number]
export type AnyRental = Reply<'listAllRentals'>['rentals'][number]
export type AnyVolume = Reply<'listAllVolumes'>['volumes'][number]

/** Names are not unique across accounts; numbers are. */
export function NumberedName({ noun, id, name }: { noun: string; id: number; name: string }) {
  return (
    <span title={`${noun} ${id}`}>
      {name} <span className="text-muted">#{id}</span>
    </span>
  )
}
