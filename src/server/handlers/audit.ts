/** The audit log over HTTP, for operators. */
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { readAccountNames } from '../../store/account/account.ts'
import { listAudit, type AuditRecord } from '../../store/platform/audit.ts'
import { badCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

export const auditHandlers = {
  listAudit: async (app, { query }) => {
    const before = query.cursor === undefined ? undefined : decodeIdCursor(query.cursor)
    if (query.cursor !== undefined && before === undefined) return badCursor()
    const records = await listAudit(app.database.db, {
      ...(before === undefined ? {} : { before }),
      ...(query.accountId === undefined ? {} : { accountId: query.accountId }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(records, query.limit, (record) => record.id)
    const nameOf = await readAccountNames(
      app.database.db,
      page.rows.map((record) => record.account_id),
    )
    return ok({
      records: page.rows.map((record) => ({
        ...auditOnWire(record),
        accountName: record.account_id === null ? null : nameOf(record.account_id),
      })),
      nextCursor: page.nextCursor,
    })
  },
} satisfies Partial<Handlers>

function auditOnWire(record: AuditRecord): Omit<ResponseOf<Api['listAudit']>['records'][number], 'accountName'> {
  return {
    id: record.id.toString(),
    at: record.at,
    actor: record.actor,
    action: record.action,
    accountId: record.account_id,
    subject: record.subject,
    reason: record.reason,
    detail: record.detail,
  }
}
