/** The person who is signed in to the console, over HTTP. */
import { getPerson, type Offer } from '../../app/person/person.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import type { ConsoleSession } from '../../store/account/console-session.ts'
import type { Membership } from '../../store/account/person.ts'
import type { Handlers } from '../http/handler.ts'

type PersonPage = ResponseOf<Api['getPerson']>

export const personHandlers = {
  getPerson: async (app, { actor }) => {
    const result = await getPerson(app, actor)
    if (!result.ok) return result
    const { person, session, memberships, offers } = result.value
    return ok({
      id: person.id,
      email: person.email,
      name: person.name,
      session: sessionOnWire(session, session.id),
      accounts: memberships.map((one) => membershipOnWire(one, actor.accountId)),
      offers: offers.map(offerOnWire),
    })
  },
} satisfies Partial<Handlers>

function sessionOnWire(session: ConsoleSession, currentId: string): PersonPage['session'] {
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
