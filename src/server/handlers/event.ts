/** Events over HTTP. */
import { failField, ok } from '../../contract/result.ts'
import { readAccountNames } from '../../store/account/account.ts'
import { listAllEvents, newestEventId } from '../../store/notice/all-events.ts'
import { listEvents } from '../../store/notice/event.ts'
import { badCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import { eventsNotSettled } from '../events/event-stream.ts'
import type { Handlers } from '../http/handler.ts'

export const eventHandlers = {
  listEvents: async ({ database }, { actor, query }) => {
    const { limit, cursor, type } = query
    const beforeId = cursor === undefined ? undefined : decodeIdCursor(cursor)
    if (cursor !== undefined && beforeId === undefined) return badCursor()
    const subject = query.subject === undefined ? undefined : parseSubject(query.subject)
    if (query.subject !== undefined && subject === undefined) {
      return failField(['subject'], 'bad_subject')
    }
    const events = await listEvents(database.db, actor.accountId, {
      limit: rowsToAsk(limit),
      ...(beforeId === undefined ? {} : { before: beforeId }),
      ...(type === undefined ? {} : { type }),
      ...(subject === undefined ? {} : { subject }),
    })
    const { rows, nextCursor } = pageOf(events, limit, (event) => event.id)
    return ok({ events: rows, nextCursor })
  },

  listAllEvents: async ({ database }, { query }) => {
    const { limit, cursor, type, accountId } = query
    const beforeId = cursor === undefined ? undefined : decodeIdCursor(cursor)
    if (cursor !== undefined && beforeId === undefined) return badCursor()
    const upTo = beforeId === undefined ? await newestEventId(database.db) : beforeId - 1n
    if (upTo === undefined) return eventsNotSettled()
    const events = await listAllEvents(database.db, {
      upTo,
      limit: rowsToAsk(limit),
      ...(type === undefined ? {} : { type }),
      ...(accountId === undefined ? {} : { accountId }),
    })
    const { rows, nextCursor } = pageOf(events, limit, (event) => event.id)
    const nameOf = await readAccountNames(
      database.db,
      rows.map((event) => event.accountId),
    )
    return ok({ events: rows.map((event) => ({ ...event, accountName: nameOf(event.accountId) })), nextCursor })
  },
} satisfies Partial<Handlers>

function parseSubject(text: string): { kind: string; id: string } | undefined {
  const [, kind, id] = /^([a-z_]+):([!-~]+)$/.exec(text) ?? []
  return kind === undefined || id === undefined ? undefined : { kind, id }
}
