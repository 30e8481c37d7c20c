/** The account's machines of all kinds, as one list. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { ClientError } from '../../../src/client/error.ts'
import { machineOf, type OwnMachine } from '../../../src/view/own-machine.ts'
import { useCall } from '../../api/query.ts'

/** Lists the machines, newest first. */
export function useOwnMachines(options: { readonly enabled?: boolean } = {}): {
  readonly machines: readonly OwnMachine[] | undefined
  /** The time for which the costs are correct. */
  readonly readMs: number
  readonly failed: UseQueryResult<unknown, ClientError> | undefined
} {
  const list = useCall('listRentals', {}, options)
  const failed = list.data === undefined && list.error !== null ? list : undefined
  return { machines: list.data?.rentals.map(machineOf), readMs: list.dataUpdatedAt, failed }
}
