/** Search parameters of this page. */
import {
  gpuTypes,
  hostStates,
  machineStatuses,
  networkTypes,
  offerings,
  regions,
  rentalTypes,
} from '../../../src/contract/choices.ts'
import { rentalStates } from '../../../src/contract/rental-state.ts'
import { count, oneOf, searchReader, text } from '../../search.ts'

const fleetTabs = ['machines', 'hosts', 'clusters', 'engines', 'rentals', 'volumes', 'images', 'placement'] as const
export type FleetTab = (typeof fleetTabs)[number]

export const fleetSearch = searchReader({
  tab: oneOf(fleetTabs),
  /** Searches machines and hosts. */
  q: text,
  offering: oneOf(offerings),
  status: oneOf(machineStatuses),
  state: oneOf(hostStates),
  rental: oneOf(rentalStates),
  account: text,
  /** The order to explain. */
  type: oneOf(rentalTypes),
  region: oneOf(regions),
  gpu: oneOf(gpuTypes),
  network: oneOf(networkTypes),
  gpus: count(4_096),
})
