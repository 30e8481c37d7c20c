/** Whether somebody has looked at a page with costs in this browser, after there were some. The tour asks for it. */
import { useQuery } from '@tanstack/react-query'
import { parseUsd } from '../../src/base/money.ts'
import { text } from '../search.ts'
import { readStored, writeStored } from '../ui/stored.ts'
import { call, queries } from './query.ts'

const NAME = 'berth.tour.cost'
const costPages: readonly string[] = ['/billing', '/costs', '/usage']

const hasSeenCost = (accountId: string): boolean => readStored(NAME, text, '') === accountId

export function useSeenCost(accountId: string): boolean {
  const { data } = useQuery({ queryKey: [NAME, accountId], queryFn: () => hasSeenCost(accountId) })
  return data ?? hasSeenCost(accountId)
}

/** Call after each navigation. A failed read is not reported: the page itself shows it, and the next visit counts. */
export async function noteCostPage(path: string, accountId: string): Promise<void> {
  if (!costPages.includes(path) || hasSeenCost(accountId)) return
  const usage = await call('getUsageSummary', {}).catch(() => undefined)
  if (usage === undefined || (parseUsd(usage.totalUsd) ?? 0n) === 0n) return
  writeStored(NAME, accountId)
  queries.setQueryData([NAME, accountId], true)
}
