/** `berth usage` and `billing costs`: spending by day, model, rental, label and so on. In a terminal each row has a bar. */
import { chargedAndRunning, money, notChargedYet } from '../../view/money.ts'
import { number } from '../../view/number.ts'
import { addMs, DAY_MS, formatDay, parseInstant } from '../../base/instant.ts'
import { formatUsdForPeople, nanoUsdToNumber, parseUsd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import { isRefusal } from '../../client/error.ts'
import { parseDay, parseSince } from '../kit/day.ts'
import { show } from '../kit/row.ts'
import { toned, type Cell } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

const BAR_CHARS = 20
/** Longer periods show only the days with spending. */
const MAX_EMPTY_DAYS = 31

type Summary = Reply<'getUsageSummary'>

interface UsageRow {
  readonly name: string
  readonly cost: NanoUsd
  readonly requests: number
}

export const rows: readonly Row[] = [
  show('usage', 'getUsageSummary', 'show spending by day, model, key or rental', {
    flags: {
      by: 'group by',
      from: { text: '--since <day>  first day: 2026-11-01, or 7d for a week (default: 30d)', parse: parseSince },
      to: { text: '--until <day>  last day (default: today)', parse: parseDay },
    },
    examples: ['berth usage --since 7d', 'berth usage --by model --since 2026-11-01'],
    content: async (summary, { client, shell }) => {
      const { from, to, by } = summary
      const { month } = await client.call('getCosts', {})
      if (summary.rows.length === 0) return [`No spending from ${from} to ${to}.`]
      const names = by === 'key' ? await readKeyNames(client) : new Map<string, string>()
      const hasBars = shell.color.out
      return [
        {
          titles: [by.toUpperCase(), 'REQUESTS', 'COST', ...(hasBars ? [''] : [])],
          rows: cellsOf(usageRows(summary, names), hasBars),
        },
        '',
        `${money(summary.totalUsd)} charged from ${from} to ${to} (UTC)`,
        notChargedYet(month.unbilledUsd),
      ]
    },
  }),
]

/** This command is part of `berth billing`. */
export const costsRow: Row = show(
  'billing costs',
  'getCosts',
  'show costs by kind, resource, key, label or member, and a forecast',
  {
    flags: {
      groupBy: '--by <group>  group by',
      from: { text: '--since <day>  first day: 2026-11-01, or 7d for a week (default: 30d)', parse: parseSince },
      to: { text: '--until <day>  last day (default: today)', parse: parseDay },
      limit: '--top <n>  number of groups; the rest is one row',
    },
    examples: ['berth billing costs', 'berth billing costs --by label --since 7d'],
    content: ({ from, to, groupBy, groups, totalUsd, month }, { shell }) => {
      const rows = groups.map(({ name, costUsd }) => ({ name, cost: parseUsd(costUsd) ?? zeroUsd, requests: 0 }))
      const cells = cellsOf(rows, shell.color.out).map(([name = '', , ...values]) => [name, ...values])
      return [
        groups.length === 0
          ? `No costs from ${from} to ${to}.`
          : { titles: [groupBy.toUpperCase(), 'COST', ...(shell.color.out ? [''] : [])], rows: cells },
        '',
        `${money(totalUsd)} charged from ${from} to ${to} (UTC)`,
        `${money(month.spentUsd)} this month so far: ${chargedAndRunning(month)}`,
        `Forecast for ${month.month}: ${money(month.forecastUsd)}`,
      ]
    },
  },
)

function cellsOf(usage: readonly UsageRow[], hasBars: boolean): Cell[][] {
  const max = Math.max(0, ...usage.map(({ cost }) => nanoUsdToNumber(cost)))
  return usage.map(({ name, cost, requests }) => [
    name,
    requests === 0 ? '' : number(requests),
    formatUsdForPeople(cost),
    ...(hasBars ? [toned('info', barOf(nanoUsdToNumber(cost), max))] : []),
  ])
}

/** Any spending shows at least a thin line. */
function barOf(part: number, max: number): string {
  if (part <= 0) return ''
  const filled = Math.round((part / max) * BAR_CHARS)
  return filled === 0 ? '▏' : '█'.repeat(filled)
}

function usageRows(summary: Summary, names: ReadonlyMap<string, string>): UsageRow[] {
  const rows = summary.rows.map(({ group, costUsd, requests, rental }): UsageRow => {
    const name = names.get(group) ?? rental?.label ?? rental?.name ?? undefined
    return { name: name === undefined ? group : `${group} ${name}`, cost: parseUsd(costUsd) ?? zeroUsd, requests }
  })
  return summary.by === 'day' ? withEmptyDays(summary, rows) : rows
}

/** A day without spending is a row too, or the bars would hide it. */
function withEmptyDays({ from, to }: Summary, rows: readonly UsageRow[]): UsageRow[] {
  const [first, last] = [parseInstant(from), parseInstant(to)]
  if (first === undefined || last === undefined || last - first >= MAX_EMPTY_DAYS * DAY_MS) return [...rows]
  const byDay = new Map(rows.map((row) => [row.name, row]))
  return Array.from({ length: Math.round((last - first) / DAY_MS) + 1 }, (_, n) => {
    const name = formatDay(addMs(first, n * DAY_MS))
    return byDay.get(name) ?? { name, cost: zeroUsd, requests: 0 }
  })
}

/** Names need the scope keys; without it the ids are shown alone. */
async function readKeyNames(client: Client): Promise<Map<string, string>> {
  try {
    const { apiKeys } = await client.call('listApiKeys')
    return new Map(apiKeys.map(({ publicId, name }) => [publicId, name]))
  } catch (error) {
    if (isRefusal(error, 'missing_scope')) return new Map()
    throw error
  }
}
