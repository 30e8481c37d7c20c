/** People and mail over HTTP, for operators. */
import { changePerson } from '../../app/person/operator-person.ts'
import { ok } from '../../contract/result.ts'
import { listMails, listPeoplePage, type ListedPerson } from '../../store/account/operator-person.ts'
import { findPerson } from '../../store/account/person.ts'
import { transact } from '../../store/platform/database.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

export const operatorPersonHandlers = {
  listPeople: async ({ database: { db } }, { query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && (after === undefined || (await findPerson(db, after)) === undefined))
      return badCursor()
    const people = await listPeoplePage(db, { q: query.q, after, limit: rowsToAsk(query.limit) })
    const page = pageOf(people, query.limit, ({ id }) => id)
    return ok({ people: page.rows.map(personOnWire), nextCursor: page.nextCursor })
  },

  changePerson: async ({ database }, { actor, params, body }) => {
    const changed = await transact(database, (tx) => changePerson(tx, actor, { id: params.id, ...body }))
    return changed.ok ? ok(personOnWire(changed.value)) : changed
  },

  listMails: async ({ database: { db } }, { query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const mails = await listMails(db, { state: query.state, q: query.q, after, limit: rowsToAsk(query.limit) })
    const page = pageOf(mails, query.limit, ({ id }) => id)
    return ok({ mails: [...page.rows], nextCursor: page.nextCursor })
  },
} satisfies Partial<Handlers>

function personOnWire({ accounts, ...person }: ListedPerson) {
  return { ...person, accounts: [...accounts] }
}
