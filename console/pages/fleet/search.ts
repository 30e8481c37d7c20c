/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'
import { desired } from '../../../src/contract/agent.ts'
import { machineStatus } from '../../../src/contract/operator.ts'
import { region } from '../../../src/contract/region.ts'
import { rentalState, rentalType } from '../../../src/contract/rental.ts'
import { gpuType, networkType } from '../../../src/contract/shared.ts'
import { suppliedMachine } from '../../../src/contract/supply.ts'

const fleetTabs = ['machines', 'hosts', 'engines', 'rentals', 'volumes', 'images', 'placement'] as const
export type FleetTab = (typeof fleetTabs)[number]

const text = z.string().max(200).optional().catch(undefined)

export const fleetSearch = z.object({
  tab: z.enum(fleetTabs).optional().catch(undefined),
  /** Searches machines and hosts. */
  q: text,
  offering: suppliedMachine.shape.offering.optional().catch(undefined),
  status: machineStatus.optional().catch(undefined),
  state: desired.shape.state.optional().catch(undefined),
  rental: rentalState.optional().catch(undefined),
  account: text,
  /** The order to explain. */
  type: rentalType.optional().catch(undefined),
  region: region.optional().catch(undefined),
  gpu: gpuType.optional().catch(undefined),
  network: networkType.optional().catch(undefined),
  gpus: z.int().min(1).max(4_096).optional().catch(undefined),
})
