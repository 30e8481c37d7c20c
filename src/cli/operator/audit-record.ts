/** Entries of the audit log. */
import type { Reply } from '../../client/client.ts'
import { auditDetails, auditSummary } from '../../domain/audit.ts'
import { money } from '../../view/money.ts'
import { utcTime } from '../../view/time.ts'
import type { Content } from '../kit/screen.ts'

export type AuditRecord = Reply<'listAudit'>['records'][number]

const INDENT = '    '
/** The details of one entry are truncated, because a change of the price book may list a thousand rows. */
const MAX_DETAILS = 50
/** Most actions are at most this long, so that the summaries are aligned. */
const ACTION_CHARS = 'balance.adjustment'.length

/** Time and action, and below them the account, the actor and the reason. */
export function recordContent(record: AuditRecord, withAccount: boolean): Content[] {
  const { at, action, actor, accountId, reason } = record
  const who = `${withAccount && accountId !== null ? `${accountId}, ` : ''}by ${actor}`
  return [
    [utcTime(at), `${action.padEnd(ACTION_CHARS)}  ${auditSummary(record, money)}`.trimEnd()],
    `${INDENT}${reason === null ? who : `${who}: ${reason}`}`,
  ]
}

/** One line per value: `changed quota gpus  16`. */
export function detailContent({ detail }: AuditRecord): Content[] {
  const values = auditDetails(detail, money)
  const hiddenCount = values.length - MAX_DETAILS
  return [
    ...values.slice(0, MAX_DETAILS).map(([name, value]): Content => [`${INDENT}${name}`, value]),
    hiddenCount > 0 ? `${INDENT}… and ${hiddenCount} more: see --json` : undefined,
  ]
}
