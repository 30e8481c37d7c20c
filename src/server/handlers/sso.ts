/** Providers at which people sign in, over HTTP. */
import type { App } from '../../app/app.ts'
import { createOnce } from '../../app/idempotency.ts'
import { removeIdentity } from '../../app/person/identity.ts'
import {
  addSsoProvider,
  changeSsoProvider,
  getAccountSso,
  refuseAccountIssuer,
  removeAccountSso,
  removeSsoProvider,
  requireAccountSso,
  setAccountSso,
  type AccountSso,
} from '../../app/person/sso-provider.ts'
import { requireOwner } from '../../app/account/account.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { providerPath } from '../../contract/session.ts'
import {
  findAccountProvider,
  findProvider,
  listAllProviders,
  listProvidersOfAccount,
  type ListedProvider,
} from '../../store/account/identity-provider.ts'
import { listIdentities } from '../../store/account/identity.ts'
import { transact } from '../../store/platform/database.ts'
import { isDown } from '../console/sign-in-ways.ts'
import type { Handlers } from '../http/handler.ts'

type ProviderOnWire = ResponseOf<Api['addSsoProvider']>

const operatorHandlers = {
  listSsoProviders: async (app) => {
    const providers = await listAllProviders(app.database.db)
    return ok({ providers: providers.map((one) => providerOnWire(app, one)) })
  },

  addSsoProvider: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const added = await addSsoProvider(app, tx, actor, body)
      return added.ok ? ok(providerOnWire(app, added.value)) : added
    }),

  changeSsoProvider: async (app, { actor, params, body }) => {
    const changed = await transact(app.database, (tx) => changeSsoProvider(app, tx, actor, params.id, body))
    return changed.ok ? ok(providerOnWire(app, changed.value)) : changed
  },

  testSsoProvider: async (app, { params }) => testProvider(app, await findProvider(app.database.db, params.id)),

  removeSsoProvider: async ({ database }, { actor, params }) => {
    const removed = await transact(database, (tx) => removeSsoProvider(tx, actor, params.id))
    return removed.ok ? ok({ message: `The sign-in provider ${removed.value.id} is removed` }) : removed
  },
} satisfies Partial<Handlers>

const accountHandlers = {
  getAccountSso: async (app, { actor }) =>
    ok(accountSsoOnWire(app, await getAccountSso(app.database.db, actor.accountId))),

  setAccountSso: async (app, { actor, body }) => {
    const refused = await refuseAccountIssuer(app, body.issuer)
    if (refused !== undefined) return refused
    return answerSso(app, await transact(app.database, (tx) => setAccountSso(app, tx, actor, body)))
  },

  testAccountSso: async (app, { actor }) => {
    const refused = await transact(app.database, async (tx) => {
      const failure = await requireOwner(tx, actor, 'test sign-in')
      return failure ?? ok(undefined)
    })
    if (!refused.ok) return refused
    return testProvider(app, await findAccountProvider(app.database.db, actor.accountId))
  },

  requireAccountSso: async (app, { actor, body }) =>
    answerSso(app, await transact(app.database, (tx) => requireAccountSso(tx, actor, body.providerId))),

  removeAccountSso: async ({ database }, { actor }) => {
    const removed = await transact(database, (tx) => removeAccountSso(tx, actor))
    return removed.ok ? ok({ message: `The sign-in provider ${removed.value.name} is removed` }) : removed
  },
} satisfies Partial<Handlers>

const personHandlers = {
  listIdentities: async ({ database: { db } }, { actor }) => {
    const identities = await listIdentities(db, actor.personId)
    const connected = new Set(identities.map(({ provider_id: id }) => id))
    const providers = await listProvidersOfAccount(db, actor.accountId)
    return ok({
      identities: identities.map(identityOnWire),
      choices: providers
        .filter(({ id }) => !connected.has(id))
        .map(({ id, name, kind }) => ({ id, name, kind, connectUrl: `${providerPath(id)}?purpose=connect` })),
    })
  },

  removeIdentity: async (app, { actor, params }) => {
    const removed = await transact(app.database, (tx) => removeIdentity(app, tx, actor, params.id))
    return removed.ok ? ok({ message: 'You do not sign in there any more' }) : removed
  },
} satisfies Partial<Handlers>

export const ssoHandlers = { ...operatorHandlers, ...accountHandlers, ...personHandlers }

function identityOnWire(identity: Awaited<ReturnType<typeof listIdentities>>[number]) {
  return {
    id: identity.id,
    providerId: identity.provider_id,
    providerName: identity.providerName,
    kind: identity.kind,
    email: identity.email,
    createdAt: identity.created_at,
    lastUsedAt: identity.last_used_at,
  }
}

async function testProvider(
  app: App,
  provider: ListedProvider | undefined,
): Promise<Result<ResponseOf<Api['testSsoProvider']>>> {
  if (provider === undefined) return fail('sso_provider_not_found')
  const { people } = app
  if (people === undefined) return fail('people_not_configured')
  const checks = await people.providers.check(provider)
  const { testUrl } = providerOnWire(app, provider)
  return ok({ ok: checks.every(({ result }) => result !== 'failed'), checks, testUrl })
}

function answerSso(app: App, result: Result<AccountSso>): Result<ResponseOf<Api['getAccountSso']>> {
  return result.ok ? ok(accountSsoOnWire(app, result.value)) : result
}

function accountSsoOnWire(app: App, { provider, requiredProviderId, choices }: AccountSso) {
  return {
    provider: provider === undefined ? null : providerOnWire(app, provider),
    requiredProviderId,
    choices: [...choices],
  }
}

function providerOnWire({ people, clock }: App, provider: ListedProvider): ProviderOnWire {
  const { id, account_id: accountId, kind, name, issuer, people: count } = provider
  const url = people === undefined ? null : `${people.publicUrl}${providerPath(id)}`
  return {
    id,
    accountId,
    kind,
    name,
    issuer,
    clientId: provider.client_id,
    hasSecret: provider.client_secret_sealed !== null,
    domains: provider.domains,
    requiredDomain: provider.required_domain,
    callbackUrl: url === null ? null : `${url}/callback`,
    signInUrl: url,
    testUrl: url === null ? null : `${url}?purpose=test`,
    isDown: isDown(provider, clock.now()),
    succeededAt: provider.succeeded_at,
    failedAt: provider.failed_at,
    lastError: provider.last_error,
    disabledAt: provider.disabled_at,
    people: count,
    createdAt: provider.created_at,
  }
}
