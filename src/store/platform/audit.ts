/** The audit log: actions of operators and of Berth itself. An entry is written with its action and never changed. */
import type { Selectable } from 'kysely'
import { toDate } from '../../base/instant.ts'
import type { AuditAction } from '../../domain/audit.ts'
import type { Db, Tx } from './database.ts'
import type { Tables } from './tables.ts'

export type AuditRecord = Selectable<Tables['audit']>

export interface NewAuditRecord {
  /** The public id of a key, or the name of a component of Berth. */
  readonly actor: string
  readonly action: AuditAction
  readonly accountId?: string
  readonly subject?: string
  readonly reason?: string
  readonly detail?: Readonly<Record<string, unknown>>
}

export async function writeAudit(tx: Tx, record: NewAuditRecord): Promise<void> {
  await tx.db
    .insertInto('audit')
    .values({
      at: toDate(tx.clock.now()),
      actor: record.actor,
      action: record.action,
      account_id: record.accountId ?? null,
      subject: record.subject ?? null,
      reason: record.reason ?? null,
      detail: JSON.stringify(record.detail ?? {}),
    })
    .execute()
}

/** The newest come first. */
export async function listAudit(
  db: Db,
  query: { before?: bigint; accountId?: string; limit: number },
): Promise<AuditRecord[]> {
  let select = db.selectFrom('audit').selectAll()
  if (query.before !== undefined) select = select.where('id', '<', query.before)
  if (query.accountId !== undefined) select = select.where('account_id', '=', query.accountId)
  return select.orderBy('id', 'desc').limit(query.limit).execute()
}
