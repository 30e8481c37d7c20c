/** Entries of the audit log as lines. */
import { money } from '../view/money.ts'
import { utcTime } from '../view/time.ts'
import type { Reply } from '../client/client.ts'
import { auditDetails, auditSummary } from '../domain/audit.ts'
import { fields, printable, type Screen } from './screen.ts'

type AuditRecord = Reply<'listAudit'>['records'][number]

const INDENT = '    '
/** Of one entry: a change of the price book may name a thousand rows. */
const DETAILS_SHOWN = 50
/** Most actions are no longer than this, so the summaries are aligned. */
const ACTION_CHARS = 'balance.adjustment'.length

/** When and what; below it the account, who and why. */
export function recordLines(screen: Screen, record: AuditRecord, withAccount: boolean): string[] {
  const { at, action, actor, accountId, reason } = record
  const who = `${withAccount && accountId !== null ? `${accountId}, ` : ''}by ${actor}`
  const what = `${screen.paint('cyan', printable(action).padEnd(ACTION_CHARS))}  ${printable(auditSummary(record, money))}`
  return [
    `${screen.paint('dim', utcTime(at))}  ${what}`.trimEnd(),
    `${INDENT}${printable(reason === null ? who : `${who}: ${reason}`)}`,
  ]
}

/** One line per value: `changed quota gpus  16`. */
export function detailLines(screen: Screen, { detail }: AuditRecord): string[] {
  const values = auditDetails(detail, money)
  const left = values.length - DETAILS_SHOWN
  const lines = fields(screen, values.slice(0, DETAILS_SHOWN))
  return [...lines, ...(left > 0 ? [`… and ${left} more: see --json`] : [])].map((line) => INDENT + line)
}
