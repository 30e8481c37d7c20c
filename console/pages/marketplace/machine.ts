/**
 * Marketplace machines as table rows. The server filters, sorts and counts; only the pages that are in view are read,
 * however long the list is.
 */
import { useQueries } from '@tanstack/react-query'
import { useState } from 'react'
import { parseUsd, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { CallInput, Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import { call, refresh, useCall } from '../../api/query.ts'
import type { marketplaceSearch } from './search.ts'

const PAGE_ROWS = 100
const MIB_PER_GIB = 1_024

type Listed = Reply<'searchMachines'>['machines'][number]

export interface MachineRow extends Omit<Listed, 'gpuModel' | 'gpuRamMib' | 'pricePerGpuHourUsd'> {
  /** The common name, without the vendor. */
  readonly gpu: string
  readonly vramGb: number
  readonly pricePerGpu: NanoUsd
}

export interface Machines {
  /** All matches. A machine that has not been read yet is undefined. undefined: nothing has been read yet. */
  readonly rows: ReadonlyArray<MachineRow | undefined> | undefined
  readonly error: ClientError | null
  readonly retry: () => void
  /** Reports the rows in view, so that they are read. */
  readonly show: (first: number, last: number) => void
}

export function useMachines(search: ReturnType<typeof marketplaceSearch>): Machines {
  const [pages, setPages] = useState<readonly number[]>([0])
  const [lastCount, setLastCount] = useState<number>()
  const { sort = 'price', down = false, each = false, template: _template, like: _like, ...filter } = search
  const answers = useQueries({
    queries: pages.map((page) => {
      const input: CallInput<'searchMachines'> = {
        query: { ...filter, sort, down, grouped: !each, offset: page * PAGE_ROWS, limit: PAGE_ROWS },
      }
      return {
        // The key is that of `useCall`, so that events refresh it.
        queryKey: ['searchMachines', input],
        queryFn: ({ signal }: { signal: AbortSignal }) => call('searchMachines', { ...input, signal }),
      }
    }),
  })
  const matches = answers.find(({ data }) => data !== undefined)?.data?.matches
  // While other rows are read, the last count keeps the height of the table.
  if (matches !== undefined && matches !== lastCount) setLastCount(matches)
  const count = matches ?? lastCount
  const rows = count === undefined ? undefined : Array.from<MachineRow | undefined>({ length: count })
  pages.forEach((page, n) => {
    answers[n]?.data?.machines.forEach((machine, at) => {
      if (rows !== undefined && page * PAGE_ROWS + at < rows.length) rows[page * PAGE_ROWS + at] = rowOf(machine)
    })
  })
  return {
    rows,
    error: (answers.find(({ error }) => error !== null)?.error as ClientError | undefined) ?? null,
    retry: () => void refresh(['searchMachines']),
    show: (first, last) => {
      const [from, to] = [Math.floor(first / PAGE_ROWS), Math.floor(last / PAGE_ROWS)]
      if (pages[0] === from && pages.at(-1) === to) return
      setPages(Array.from({ length: to - from + 1 }, (_, n) => from + n))
    },
  }
}

/** One machine by its id. undefined: it is not offered, or has not been read yet. */
export function useMachine(id: string | undefined): { readonly machine: MachineRow | undefined; isLoading: boolean } {
  const input: CallInput<'searchMachines'> = { query: { text: id ?? '', limit: PAGE_ROWS } }
  const { data, isLoading } = useCall('searchMachines', input, { enabled: id !== undefined })
  const machine = data?.machines.find((one) => one.id === id)
  return { machine: machine && rowOf(machine), isLoading }
}

function rowOf({ gpuModel, gpuRamMib, pricePerGpuHourUsd, ...machine }: Listed): MachineRow {
  return {
    ...machine,
    gpu: gpuLabel(gpuModel),
    vramGb: Math.round(gpuRamMib / MIB_PER_GIB),
    pricePerGpu: parseUsd(pricePerGpuHourUsd) ?? zeroUsd,
  }
}
