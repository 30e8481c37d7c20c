/** The person who is signed in to the console, over HTTP. */
import { acceptOffer, declineOffer } from '../../app/person/invitation.ts'
import type { Actor } from '../../app/app.ts'
import { actInAccount, getPerson, refuseConfined, type Offer } from '../../app/person/person.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok, type Failure } from '../../contract/result.ts'
import { deleteSessionsOf, listConsoleSessions, type ConsoleSession } from '../../store/account/console-session.ts'
import type { Membership } from '../../store/account/person.ts'
import { findAcceptance, findNewestTerms } from '../../store/account/terms.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

type PersonPage = ResponseOf<Api['getPerson']>

export const personHandlers = {
  getPerson: async (app, { actor }) => {
    const result = await getPerson(app, actor)
    if (!result.ok) return result
    const { person, session, memberships, offers } = result.value
    const acceptance = await findAcceptance(app.database.db, person.id)
    return ok({
      id: person.id,
      email: person.email,
      name: person.name,
      session: sessionOnWire(session, session.id),
      accounts: memberships.map((one) => membershipOnWire(one, actor.accountId)),
      offers: offers.map(offerOnWire),
      terms: {
        newest: (await findNewestTerms(app.database.db))?.version ?? null,
        accepted: acceptance?.version ?? null,
        acceptedAt: acceptance?.acceptedAt ?? null,
      },
    })
  },

  listSessions: async ({ database, clock }, { actor }) => {
    const sessions = await listConsoleSessions(database.db, actor.personId, clock.now())
    // The owner of an account could be behind a session that its provider has opened.
    const isShown = ({ id }: ConsoleSession): boolean => actor.session?.confinedTo === null || id === actor.session?.id
    return ok({ sessions: sessions.filter(isShown).map((one) => sessionOnWire(one, actor.session?.id)) })
  },

  endSession: async ({ database }, { actor, params }) => {
    const refused = params.id === actor.session?.id ? undefined : refuseOthers(actor)
    if (refused !== undefined) return refused
    const ended = await transact(database, (tx) => deleteSessionsOf(tx, actor.personId, { id: params.id }))
    return ended === 0 ? fail('session_not_found') : ok({ message: 'The session has ended' })
  },

  endOtherSessions: async ({ database }, { actor }) => {
    const except = actor.session?.id ?? ''
    const refused = refuseOthers(actor)
    if (refused !== undefined) return refused
    return ok({ ended: await transact(database, (tx) => deleteSessionsOf(tx, actor.personId, { except })) })
  },

  switchAccount: async ({ database }, { actor, body }) => {
    const { accountId } = body
    const switched = await transact(database, (tx) => actInAccount(tx, actor, accountId))
    return switched.ok ? ok(membershipOnWire(switched.value, accountId)) : switched
  },

  acceptOffer: async ({ database }, { actor, params }) => {
    const accepted = await transact(database, (tx) => acceptOffer(tx, actor, params.id))
    return accepted.ok ? ok(membershipOnWire(accepted.value, accepted.value.accountId)) : accepted
  },

  declineOffer: async ({ database }, { actor, params }) => {
    const declined = await transact(database, (tx) => declineOffer(tx, actor, params.id))
    return declined.ok ? ok({ message: 'The invitation is declined' }) : declined
  },
} satisfies Partial<Handlers>

function refuseOthers({ session }: Actor): Failure | undefined {
  return session === undefined ? undefined : refuseConfined(session)
}

function sessionOnWire(session: ConsoleSession, currentId: string | undefined): PersonPage['session'] {
  const { id, method, providerId, address, browser, createdAt, authAt, factorAt, seenAt, expiresAt } = session
  const isCurrent = id === currentId
  return {
    id,
    isCurrent,
    method,
    providerId,
    address,
    browser,
    createdAt,
    authenticatedAt: authAt,
    factorAt,
    seenAt,
    expiresAt,
  }
}

function membershipOnWire(membership: Membership, currentAccountId: string): PersonPage['accounts'][number] {
  const { accountId, accountName, role, requiresFactor, ssoProviderId: providerId, suspendedAt } = membership
  const isCurrent = accountId === currentAccountId
  return { accountId, accountName, role, isCurrent, suspended: suspendedAt !== null, requiresFactor, providerId }
}

function offerOnWire({
  id,
  accountId,
  accountName,
  role,
  sender,
  createdAt,
  expiresAt,
}: Offer): PersonPage['offers'][number] {
  return { id, accountId, accountName, role, sender, createdAt, expiresAt }
}
