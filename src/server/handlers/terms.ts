/** The operator's terms over HTTP. */
import { acceptTerms, publishTerms } from '../../app/person/terms.ts'
import { ok } from '../../contract/result.ts'
import { findNewestTerms } from '../../store/account/terms.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const termsHandlers = {
  getTerms: async ({ database }) => ok({ terms: (await findNewestTerms(database.db)) ?? null }),

  acceptTerms: async ({ database }, { actor, body, address = '' }) => {
    const accepted = await transact(database, (tx) => acceptTerms(tx, actor, { version: body.version, address }))
    return accepted.ok ? ok({ version: accepted.value.version }) : accepted
  },

  publishTerms: async (app, { actor, body }) => transact(app.database, (tx) => publishTerms(app, tx, actor, body.body)),
} satisfies Partial<Handlers>
