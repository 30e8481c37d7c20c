/** Lists of the whole house come in pages; here they are read to their end, up to a limit that is told. */
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { CallInput, Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { call } from '../../api/query.ts'

type PagedId = 'listFleet' | 'listHosts' | 'listAllRentals' | 'listAllVolumes' | 'listAccounts'

const PAGE_ROWS = 1_000
const PAGES_READ = 50
/** Rentals that have ended stay for ever: the newest are read, and filters lead to others. */
const RENTAL_PAGES_READ = 5
/** Names of accounts change rarely. */
const NAMES_STALE_MS = 300_000

interface Whole<Row> {
  readonly rows: readonly Row[]
  /** There are more than are read here. */
  readonly isCut: boolean
}

interface PagesOptions {
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly pages?: number
  readonly everyMs?: number
  readonly staleMs?: number
}

/** Its key begins as that of `useCall` does, so that the same events have it read again. */
function usePages<Op extends PagedId, Row>(
  operation: Op,
  rowsOf: (page: Reply<Op>) => readonly Row[],
  { query = {}, pages = PAGES_READ, everyMs, staleMs }: PagesOptions = {},
): UseQueryResult<Whole<Row>, ClientError> {
  return useQuery<Whole<Row>, ClientError>({
    queryKey: [operation, 'whole', query],
    queryFn: async ({ signal }) => {
      const rows: Row[] = []
      let cursor: string | undefined
      for (let n = 0; n < pages; n += 1) {
        const page = await call(operation, {
          query: { ...query, limit: PAGE_ROWS, cursor },
          signal,
        } as unknown as CallInput<Op>)
        rows.push(...rowsOf(page))
        if (page.nextCursor === null) return { rows, isCut: false }
        cursor = page.nextCursor
      }
      return { rows, isCut: true }
    },
    ...(everyMs === undefined ? {} : { refetchInterval: everyMs }),
    ...(staleMs === undefined ? {} : { staleTime: staleMs }),
  })
}

export type FleetMachine = Reply<'listFleet'>['machines'][number]
export type FleetHost = Reply<'listHosts'>['hosts'][number]
export type AnyRental = Reply<'listAllRentals'>['rentals'][number]

export type AnyVolume = Reply<'listAllVolumes'>['volumes'][number]

const machinesOf = (page: Reply<'listFleet'>): readonly FleetMachine[] => page.machines
const hostsOf = (page: Reply<'listHosts'>): readonly FleetHost[] => page.hosts
const rentalsOf = (page: Reply<'listAllRentals'>): readonly AnyRental[] => page.rentals
const volumesOf = (page: Reply<'listAllVolumes'>): readonly AnyVolume[] => page.volumes
const accountsOf = (page: Reply<'listAccounts'>): Reply<'listAccounts'>['accounts'] => page.accounts

export function useFleet(everyMs: number): UseQueryResult<Whole<FleetMachine>, ClientError> {
  return usePages('listFleet', machinesOf, { everyMs })
}

export function useHosts(everyMs: number): UseQueryResult<Whole<FleetHost>, ClientError> {
  return usePages('listHosts', hostsOf, { everyMs })
}

export function useEveryRental(query: {
  readonly status: AnyRental['status'] | undefined
  readonly accountId: string | undefined
}): UseQueryResult<Whole<AnyRental>, ClientError> {
  return usePages('listAllRentals', rentalsOf, { query, pages: RENTAL_PAGES_READ })
}

export function useEveryVolume(everyMs: number): UseQueryResult<Whole<AnyVolume>, ClientError> {
  return usePages('listAllVolumes', volumesOf, { pages: RENTAL_PAGES_READ, everyMs })
}

export function useEveryAccount(): UseQueryResult<Whole<Reply<'listAccounts'>['accounts'][number]>, ClientError> {
  return usePages('listAccounts', accountsOf, { staleMs: NAMES_STALE_MS })
}

/** An account's name, or its id until names are there. */
export function useAccountName(): (id: string) => string {
  const { data } = useEveryAccount()
  const names = useMemo(() => new Map(data?.rows.map((account) => [account.id, account.name])), [data])
  return (id) => names.get(id) ?? id
}
