/** Rows of the operator's lists. */
import type { Reply } from '../../../src/client/client.ts'

export type FleetMachine = Reply<'listFleet'>['machines'][number]
export type FleetHost = Reply<'listHosts'>['hosts'][number]
export type AnyRental = Reply<'listAllRentals'>['rentals'][number]
export type AnyVolume = Reply<'listAllVolumes'>['volumes'][number]
