/** The account's machines of all kinds, as one list. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { ClientError } from '../../../src/client/error.ts'
import { machineOfInstance, machineOfRental, type OwnMachine } from '../../../src/view/own-machine.ts'
import { useCall } from '../../api/query.ts'

/** Ready when all three lists are; an error of one is its error. */
export function useOwnMachines(): {
  readonly machines: readonly OwnMachine[] | undefined
  readonly failed: UseQueryResult<unknown, ClientError> | undefined
} {
  const virtual = useCall('listVirtualMachineRentals')
  const metal = useCall('listBareMetalRentals')
  const instances = useCall('listInstances')
  const failed = [virtual, metal, instances].find((one) => one.data === undefined && one.error !== null)
  if (virtual.data === undefined || metal.data === undefined || instances.data === undefined) {
    return { machines: undefined, failed }
  }
  const machines = [
    ...virtual.data.map(machineOfRental),
    ...metal.data.map(machineOfRental),
    ...instances.data.instances.map(machineOfInstance),
  ]
  return { machines: machines.toSorted((a, b) => b.createdAt.localeCompare(a.createdAt)), failed: undefined }
}
