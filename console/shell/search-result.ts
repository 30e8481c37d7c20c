/** The results of a search: pages at once, the rest by bounded requests of the operations that the key may call. */
import { useDeferredValue } from 'react'
import { displayName } from '../../src/view/own-machine.ts'
import { useOwnMachines } from '../pages/rental/machine.ts'
import { gpuLabel } from '../../src/view/gpu.ts'
import { mayUse, useMe } from '../api/me.ts'
import { useCall } from '../api/query.ts'
import { parentOf } from '../pages.ts'
import type { IconName } from '../ui/icon.tsx'
import { visiblePages } from './navigation.tsx'

/** The search shows at most this many results of each kind. */
const MAX_RESULTS = 5
/** Shorter text finds too much to be worth a request. */
const MIN_CHARS = 2

export interface SearchResult {
  readonly key: string
  readonly group: string
  readonly icon: IconName
  readonly label: string
  readonly detail: string
  /** The path that it leads to, with its query. */
  readonly href: string
}

export function useSearchResults(typed: string): {
  readonly results: readonly SearchResult[]
  readonly isBusy: boolean
} {
  const text = useDeferredValue(typed.trim())
  const isLong = text.length >= MIN_CHARS
  const me = useMe()
  const isOperator = mayUse(me, 'operator')
  const ofOperator = { enabled: isOperator && isLong, keepsLast: true }
  const rentals = useOwnMachines({ enabled: mayUse(me, 'compute:read') }).machines ?? []
  const listed = useCall(
    'searchMachines',
    { query: { text, limit: MAX_RESULTS } },
    { enabled: isLong && !isOperator && (mayUse(me, 'compute:read') || mayUse(me, 'compute:write')), keepsLast: true },
  )
  const query = { q: text, limit: MAX_RESULTS }
  const fleet = useCall('listFleet', { query }, ofOperator)
  const accounts = useCall('listAccounts', { query }, ofOperator)
  const everyones = useCall('listAllRentals', { query }, ofOperator)
  const isRequestId = /^req_[0-9a-f]{32}$/.test(text)
  const request = useCall(
    'getInferenceRequest',
    { params: { id: text } },
    { enabled: isRequestId && mayUse(me, 'inference') },
  )
  const hits = rentals.filter((machine) => matches(text, machine.name, machine.label, machine.gpus, machine.region))
  const ownNames = new Set(hits.map(({ name }) => name))
  const results: SearchResult[] = [
    ...visiblePages(me)
      .filter((page) => !page.path.includes('$') && matches(text, page.title, page.in, parentOf(page)?.title))
      .map((page) => ({
        key: page.path,
        group: 'Pages',
        icon: page.icon ?? ('list' as const),
        label: page.title,
        detail: parentOf(page)?.title ?? (page.in === 'Home' ? '' : page.in),
        href: page.path,
      })),
    ...hits.slice(0, MAX_RESULTS).map((machine) => ({
      key: `rental ${machine.kind} ${machine.id}`,
      group: 'Your rentals',
      icon: 'server' as const,
      label: displayName(machine),
      detail: `${machine.gpus}, ${machine.status}`,
      href: `/rentals/${machine.id}`,
    })),
  ]
  if (isLong) {
    for (const { id, name, accountName, status, accountId } of everyones.data?.rentals ?? []) {
      if (accountId === me.account.id && ownNames.has(name)) continue
      const href = `/operator/fleet?tab=rentals&account=${accountId}`
      const detail = `${accountName}, ${status}`
      results.push({ key: `any ${id}`, group: 'Rentals of all accounts', icon: 'server', label: name, detail, href })
    }
    for (const { id, name } of accounts.data?.accounts ?? []) {
      const href = `/operator/accounts/${id}`
      results.push({ key: `account ${id}`, group: 'Accounts', icon: 'building', label: name, detail: id, href })
    }
    for (const { id, gpuModel, region } of [...(fleet.data?.machines ?? []), ...(listed.data?.machines ?? [])]) {
      const to = isOperator ? '/operator/fleet?tab=machines&q=' : '/marketplace?text='
      results.push({
        key: `machine ${id}`,
        group: 'Machines',
        icon: 'chip',
        label: id,
        detail: `${gpuLabel(gpuModel)}, ${region}`,
        href: `${to}${encodeURIComponent(id)}`,
      })
    }
  }
  if (isRequestId && request.data !== undefined) {
    const { requestId, model } = request.data
    const href = `/requests?request=${requestId}`
    results.push({ key: requestId, group: 'Requests', icon: 'list', label: requestId, detail: model, href })
  }
  return { results, isBusy: [listed, fleet, accounts, everyones, request].some((one) => one.isFetching) }
}

/** Every word occurs somewhere. */
function matches(text: string, ...fields: ReadonlyArray<string | null | undefined>): boolean {
  const all = fields.join(' ').toLowerCase()
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word))
}
