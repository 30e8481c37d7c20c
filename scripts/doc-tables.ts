/** Tables in docs/ that come from the contract, between comments with their names. */
import { MINUTE_MS } from '../src/base/instant.ts'
import { defaultQuota } from '../src/base/limits.ts'
import { quotaNames, quotaTexts } from '../src/contract/quota-text.ts'
import { rentalStates, rentalStateTable, type Billing, type StateLimit } from '../src/contract/rental-state.ts'
import { scopeTexts } from '../src/contract/scope-text.ts'

/** The pages with such tables. */
export const pagesWithTables = ['docs/customer/account.md', 'docs/customer/machines.md']

const tables: Readonly<Record<string, () => string>> = {
  'rental states': () =>
    tableOf(
      ['`state`', 'meaning', 'cost', 'next', 'longest time', 'v2 `status`', 'marketplace'],
      rentalStates.map((state) => {
        const { meaning, billing, next, limit, status, driverCall, instanceStatus } = rentalStateTable[state]
        return [
          code(state),
          meaning,
          costs[billing],
          next.length === 0 ? 'final' : next.map(code).join(', '),
          limit === null ? '–' : limitText(limit),
          code(status),
          driverCall === 'create' ? `\`creating\`, then ${code(instanceStatus)}` : code(instanceStatus),
        ]
      }),
    ),
  scopes: () =>
    tableOf(
      ['scope', 'allows'],
      Object.entries(scopeTexts).map(([scope, meaning]) => [code(scope), meaning]),
    ),
  quotas: () =>
    tableOf(
      ['quota', 'default', 'of the account'],
      quotaNames.map((name) => [code(name), defaultQuota[name].toLocaleString('en-US'), quotaTexts[name]]),
    ),
}

/** The page with each table as the contract has it now. */
export function fillTables(page: string): string {
  return page.replaceAll(
    /(<!-- table: (.*) -->\n)[^]*?(<!-- end of table -->)/g,
    (_, start: string, name: string, end: string) => {
      const render = tables[name]
      if (render === undefined) throw new Error(`there is no table ${name}`)
      return `${start}\n${render()}\n\n${end}`
    },
  )
}

const costs: Readonly<Record<Billing, string>> = {
  full: 'its price',
  paused: 'nothing after the last report',
  disk: 'its disk',
  unchanged: 'as before',
  none: 'nothing',
}

function limitText({ ms, past, reason }: StateLimit): string {
  const outcomes = { fail: '`Failed`', stop: '`Stopped`', flag: 'shown as stuck' }
  return `${ms / MINUTE_MS} minutes, then ${outcomes[past]} (\`${reason}\`)`
}

function code(text: string): string {
  return `\`${text}\``
}

function tableOf(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}
