/** `berth operator log`: who did what, when and why. Nothing is ever removed from it. */
import type { Command } from 'commander'
import { limits } from '../base/limits.ts'
import type { Reply } from '../client/client.ts'
import { auditDetails, auditSummary } from '../domain/audit.ts'
import { money } from '../view/money.ts'
import { utcTime } from '../view/time.ts'
import { fields, printable, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import { moreOr, parseName, parseWhole } from './supply.ts'

type AuditRecord = Reply<'listAudit'>['records'][number]

const SHOWN = 20
const INDENT = '    '
/** Of one entry: a change of the price book may name a thousand rows. */
const DETAILS_SHOWN = 50
/** As long as most are, so that what follows stands in a column. */
const ACTION_CHARS = 'balance.adjustment'.length

interface LogOptions {
  readonly account?: string
  readonly limit: number
  readonly cursor?: string
  readonly details?: true
}

export function addLogCommand(operator: Command, run: Run): void {
  const log = operator
    .command('log')
    .description('who did what, when and why; newest first')
    .option('--account <id>', 'only what was done with this account', parseName)
    .option('-n, --limit <count>', 'how many', parseWhole(1, limits.pageRows), SHOWN)
    .option('--cursor <cursor>', 'go on where a long list was cut')
    .option('--details', 'also what was written down with each')
  log.action(
    run('operator', async ({ client, screen }) => {
      const options = log.opts<LogOptions>()
      const { account, limit, cursor, details } = options
      const query = {
        limit,
        ...(account === undefined ? {} : { accountId: account }),
        ...(cursor === undefined ? {} : { cursor }),
      }
      const page = await client.call('listAudit', { query })
      screen.show(page, () => {
        if (page.records.length === 0) {
          return account === undefined
            ? ['There are no older entries.']
            : [`Nothing was done with ${account}.`, 'berth operator accounts lists the accounts.']
        }
        return [
          ...page.records.flatMap((record) => [
            ...recordLines(screen, record, account === undefined),
            ...(details === true ? detailLines(screen, record.detail) : []),
          ]),
          '',
          moreOr(page.nextCursor, commandOf(options), entries(page.records.length)),
        ]
      })
    }),
  )
}

/** The same question again. */
function commandOf({ account, limit, details }: LogOptions): string {
  return [
    'berth operator log',
    ...(account === undefined ? [] : [`--account ${account}`]),
    ...(limit === SHOWN ? [] : [`--limit ${limit}`]),
    ...(details === true ? ['--details'] : []),
  ].join(' ')
}

function entries(n: number): string {
  return n === 1 ? '1 entry' : `${n.toLocaleString('en-US')} entries`
}

/** What was done when; below it with which account, by whom and why. */
export function recordLines(screen: Screen, record: AuditRecord, withAccount: boolean): string[] {
  const { at, action, actor, accountId, reason } = record
  const who = `${withAccount && accountId !== null ? `${accountId}, ` : ''}by ${actor}`
  const what = `${screen.paint('cyan', printable(action).padEnd(ACTION_CHARS))}  ${printable(auditSummary(record, money))}`
  return [
    `${screen.paint('dim', utcTime(at))}  ${what}`.trimEnd(),
    `${INDENT}${printable(reason === null ? who : `${who}: ${reason}`)}`,
  ]
}

/** One line a value: `changed quota gpus  16`. */
function detailLines(screen: Screen, detail: AuditRecord['detail']): string[] {
  const values = auditDetails(detail, money)
  const left = values.length - DETAILS_SHOWN
  const lines = fields(screen, values.slice(0, DETAILS_SHOWN))
  return [...lines, ...(left > 0 ? [`… and ${left} more: --json has all`] : [])].map((line) => INDENT + line)
}
