/**
 * Marketplace machines as table rows. A response has kilobytes per machine (each GPU is listed separately), so that only
 * the shown fields are kept. It is read in pages, so that the first rows show before the last have arrived.
 */
import { useInfiniteQuery } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import type { z } from 'zod'
import { usdFromNumber, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import type { Simulation } from '../../../src/contract/shared.ts'
import { simulationIn } from '../../../src/contract/simulated.ts'
import { gpuLabel, isGpuMatch } from '../../../src/view/gpu.ts'
import { call } from '../../api/query.ts'
import type { marketplaceSearch, sortNames } from './search.ts'

/** The first page fills the screen; the others load behind it. */
const FIRST_PAGE_ROWS = 200
const PAGE_ROWS = 2_500
const MAX_PAGES = 80
const MIB_PER_GIB = 1_024
const STALE_MS = 300_000

export interface MachineRow {
  readonly id: string
  readonly cluster: string
  readonly region: string
  /** As people say it: without the maker's name. */
  readonly gpu: string
  readonly free: number
  readonly total: number
  readonly vramGb: number
  readonly cpu: string
  readonly cores: number
  readonly virtualCores: number
  readonly ramGb: number
  readonly diskGb: number
  readonly keepsDisk: boolean
  readonly pricePerGpu: NanoUsd
  readonly supplier: string
  readonly simulated: Simulation | null
  /** Lower-case text for searching. */
  readonly searchText: string
}

export interface Machines {
  readonly rows: readonly MachineRow[] | undefined
  /** More rows are loading. */
  readonly isReading: boolean
  readonly error: ClientError | null
  readonly retry: () => void
}

export function useMachines(): Machines {
  const query = useInfiniteQuery({
    // Starts with the operation, so that events refresh it.
    queryKey: ['listMachines', { paged: true }],
    queryFn: async ({ pageParam, signal }) => {
      const limit = pageParam === undefined ? FIRST_PAGE_ROWS : PAGE_ROWS
      const page = { limit, ...(pageParam === undefined ? {} : { cursor: pageParam }) }
      const answer = await call('listMachines', { query: page, body: {}, signal })
      return { rows: answer.instances.map(rowOf), next: answer.next_cursor ?? undefined }
    },
    // A refresh reads every page. Stale prices are safe: an order fails if the price has risen.
    staleTime: STALE_MS,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last, pages) => (pages.length < MAX_PAGES ? last.next : undefined),
  })
  const { data, hasNextPage, isFetching, isError, fetchNextPage } = query
  useEffect(() => {
    if (hasNextPage && !isFetching && !isError) void fetchNextPage()
  }, [hasNextPage, isFetching, isError, fetchNextPage])
  const rows = useMemo(() => data?.pages.flatMap((page) => page.rows), [data])
  return {
    rows,
    isReading: hasNextPage,
    error: query.error as ClientError | null,
    retry: () => void query.refetch(),
  }
}

function rowOf(machine: Reply<'listMachines'>['instances'][number]): MachineRow {
  const { hardware, network, location } = machine
  const gpu = gpuLabel(hardware.gpus[0]?.model)
  const cpu = hardware.cpus[0]?.model ?? ''
  return {
    id: machine.id,
    cluster: machine.cluster_name,
    region: location.region,
    gpu,
    free: machine.reserved ? 0 : machine.gpus_total - machine.gpus_reserved,
    total: machine.gpus_total,
    vramGb: Math.round((hardware.gpus[0]?.ram ?? 0) / MIB_PER_GIB),
    cpu,
    cores: hardware.cpus[0]?.cores ?? 0,
    virtualCores: hardware.cpus[0]?.virtual_cores ?? 0,
    ramGb: hardware.ram[0]?.capacity ?? 0,
    diskGb: hardware.storage[0]?.capacity ?? 0,
    keepsDisk: machine.has_persistent_storage,
    pricePerGpu: usdFromNumber(machine.pricing.price.amount) ?? zeroUsd,
    supplier: machine.supplier_id,
    simulated: simulationIn(network),
    searchText: [gpu, cpu, machine.id, machine.cluster_name, location.region, machine.supplier_id]
      .join(' ')
      .toLowerCase(),
  }
}

type MachineFilter = Pick<z.output<typeof marketplaceSearch>, 'gpu' | 'free' | 'price' | 'region' | 'text'>

export function filterMachines(rows: readonly MachineRow[], filter: MachineFilter): MachineRow[] {
  const { gpu, free, price, region, text } = filter
  const most = price === undefined ? undefined : usdFromNumber(price)
  const words = text?.toLowerCase().split(/\s+/).filter(Boolean) ?? []
  return rows.filter(
    (row) =>
      (gpu === undefined || isGpuMatch(row.gpu, gpu)) &&
      (free === undefined || row.free >= free) &&
      (most === undefined || row.pricePerGpu <= most) &&
      (region === undefined || row.region === region) &&
      words.every((word) => row.searchText.includes(word)),
  )
}

export type SortName = (typeof sortNames)[number]

const sortValues = {
  gpu: (row) => row.gpu,
  free: (row) => row.free,
  vram: (row) => row.vramGb,
  cpu: (row) => row.cores,
  ram: (row) => row.ramGb,
  disk: (row) => row.diskGb,
  region: (row) => row.region,
  price: (row) => row.pricePerGpu,
  supplier: (row) => row.supplier,
} as const satisfies Record<SortName, (row: MachineRow) => string | number | bigint>

/** Equal rows are sorted by name. */
export function sortMachines(rows: readonly MachineRow[], name: SortName, isDown: boolean): MachineRow[] {
  const value: (row: MachineRow) => string | number | bigint = sortValues[name]
  const way = isDown ? -1 : 1
  return rows.toSorted((a, b) => {
    const [left, right] = [value(a), value(b)]
    if (left !== right) return left < right ? -way : way
    return a.id < b.id ? -1 : 1
  })
}
