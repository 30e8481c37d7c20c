/** `berth usage`: what was spent, by day, model, key or rental. In a terminal each row has a bar. */
import { InvalidArgumentError, Option, type Command } from 'commander'
import { addMs, DAY_MS, formatInstant, parseInstant, startOfDay, systemClock } from '../base/instant.ts'
import { formatUsdForPeople, nanoUsdToNumber, parseUsd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { isRefusal } from '../client/error.ts'
import { table, type Cell, type Column } from './screen.ts'
import type { Run } from './session.ts'
import type { Shell } from './shell.ts'

const BAR_CHARS = 20
const MAX_DAYS = 366
/** Longer times show only the days on which something was spent. */
const WHOLE_DAYS = 31

type Summary = Reply<'getUsageSummary'>

interface UsageOptions {
  readonly by: Summary['by']
  readonly since?: string
  readonly until?: string
}

interface UsageRow {
  readonly name: string
  readonly cost: NanoUsd
  readonly requests: number
}

export function addUsageCommands(program: Command, run: Run, shell: Shell): void {
  const usage = program
    .command('usage')
    .description('what was spent, by day, model, key or rental')
    .addOption(new Option('--by <what>', 'what is summed').choices(['day', 'model', 'key', 'rental']).default('day'))
    .option('--since <day>', 'from 2026-11-01 on, or 7d for a week (30 days)', parseSince)
    .option('--until <day>', 'up to that day (today)', parseDay)
    .addHelpText('after', '\nExamples:\n  berth usage --since 7d\n  berth usage --by model --since 2026-11-01')
  usage.action(
    run('customer', async ({ client, screen }) => {
      const { by, since, until } = usage.opts<UsageOptions>()
      const query = {
        by,
        ...(since === undefined ? {} : { from: since }),
        ...(until === undefined ? {} : { to: until }),
      }
      const summary = await client.call('getUsageSummary', { query })
      const names = by === 'key' ? await keyNames(client) : new Map<string, string>()
      screen.show(summary, () => {
        const rows = rowsOf(summary, names)
        const total = formatUsdForPeople(parseUsd(summary.totalUsd) ?? zeroUsd)
        const end = `${total} from ${summary.from} to ${summary.to} (UTC)`
        if (summary.rows.length === 0) return [`Nothing was spent from ${summary.from} to ${summary.to}.`]
        return [...table(screen, columnsOf(by, shell.colour.out), cellsOf(rows, shell.colour.out)), '', end]
      })
    }),
  )
}

function columnsOf(by: Summary['by'], hasBars: boolean): Column[] {
  return [
    { title: by.toUpperCase(), shrink: true },
    { title: 'REQUESTS', right: true },
    { title: 'COST', right: true },
    ...(hasBars ? [{ title: '' }] : []),
  ]
}

function cellsOf(rows: readonly UsageRow[], hasBars: boolean): Cell[][] {
  const most = Math.max(0, ...rows.map(({ cost }) => nanoUsdToNumber(cost)))
  return rows.map(({ name, cost, requests }) => [
    name,
    requests === 0 ? '' : requests.toLocaleString('en-US'),
    formatUsdForPeople(cost),
    ...(hasBars ? [{ text: barOf(nanoUsdToNumber(cost), most), style: 'cyan' as const }] : []),
  ])
}

/** What is more than nothing shows at least a thin line. */
function barOf(part: number, most: number): string {
  if (part <= 0) return ''
  const filled = Math.round((part / most) * BAR_CHARS)
  return filled === 0 ? '▏' : '█'.repeat(filled)
}

function rowsOf(summary: Summary, names: ReadonlyMap<string, string>): UsageRow[] {
  const rows = summary.rows.map(({ group, costUsd, requests, rental }): UsageRow => {
    const name = names.get(group) ?? rental?.label ?? rental?.name
    const words = name === undefined || name === null ? group : `${group} ${name}`
    return { name: words, cost: parseUsd(costUsd) ?? zeroUsd, requests }
  })
  return summary.by === 'day' ? withEmptyDays(summary, rows) : rows
}

/** A day on which nothing was spent is a row too, or the bars would hide it. */
function withEmptyDays({ from, to }: Summary, rows: readonly UsageRow[]): UsageRow[] {
  const [first, last] = [parseInstant(from), parseInstant(to)]
  if (first === undefined || last === undefined || last - first >= WHOLE_DAYS * DAY_MS) return [...rows]
  const byDay = new Map(rows.map((row) => [row.name, row]))
  return Array.from({ length: Math.round((last - first) / DAY_MS) + 1 }, (_, n) => {
    const name = dayOf(addMs(first, n * DAY_MS))
    return byDay.get(name) ?? { name, cost: zeroUsd, requests: 0 }
  })
}

/** Names are for those who may manage keys; others see the ids. */
async function keyNames(client: Client): Promise<Map<string, string>> {
  try {
    const { apiKeys } = await client.call('listApiKeys')
    return new Map(apiKeys.map(({ publicId, name }) => [publicId, name]))
  } catch (error) {
    if (isRefusal(error, 'missing_scope')) return new Map()
    throw error
  }
}

function parseSince(text: string): string {
  const days = /^(\d{1,3})d$/.exec(text)?.[1]
  if (days === undefined) return parseDay(text)
  const n = Number.parseInt(days, 10)
  if (n < 1 || n > MAX_DAYS) throw new InvalidArgumentError(`From 1d to ${MAX_DAYS}d.`)
  return dayOf(addMs(startOfDay(systemClock.now()), (1 - n) * DAY_MS))
}

function parseDay(text: string): string {
  const at = /^\d{4}-\d\d-\d\d$/.test(text) ? parseInstant(text) : undefined
  if (at === undefined || dayOf(at) !== text) throw new InvalidArgumentError('A day such as 2026-11-01, or 7d.')
  return text
}

function dayOf(at: Parameters<typeof formatInstant>[0]): string {
  return formatInstant(at).slice(0, 'YYYY-MM-DD'.length)
}
