/** Identity providers as the operator, or the owner of an account, sets them up. */
import { randomBytes } from 'node:crypto'
import { checkOutboundUrl } from '../../base/net/outbound.ts'
import { limits } from '../../base/limits.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { lockAccount } from '../../store/account/account.ts'
import { hasOwnerAt } from '../../store/account/identity.ts'
import {
  countPublicProviders,
  deleteProvider,
  endProviderUse,
  findAccountProvider,
  findProvider,
  findRequiredProviderId,
  insertProvider,
  isProviderRequired,
  listProvidersOfAccount,
  setRequiredProvider,
  updateProvider,
  type IdentityProvider,
  type ListedProvider,
} from '../../store/account/identity-provider.ts'
import { toDateOrNull } from '../../base/instant.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import { requireOwner } from '../account/account.ts'
import type { Actor, App } from '../app.ts'
import { isProviderUrl } from './sso-http.ts'
import { GITHUB } from './sso-protocol.ts'

export interface ProviderInput {
  readonly kind: IdentityProvider['kind']
  readonly name: string
  readonly issuer?: string | undefined
  readonly clientId: string
  readonly clientSecret?: string | undefined
  readonly requiredDomain?: string | null | undefined
}

export interface ProviderChange {
  readonly name?: string | undefined
  readonly issuer?: string | undefined
  readonly clientId?: string | undefined
  readonly clientSecret?: string | null | undefined
  readonly domains?: string[] | undefined
  readonly requiredDomain?: string | null | undefined
  readonly disabled?: boolean | undefined
}

export async function addSsoProvider(
  { vault }: Pick<App, 'vault'>,
  tx: Tx,
  actor: Actor,
  input: ProviderInput & { readonly id: string; readonly domains?: string[] | undefined },
): Promise<Result<ListedProvider>> {
  const refused = refuseIssuer(input.issuer)
  if (refused !== undefined) return refused
  if ((await countPublicProviders(tx)) >= limits.identityProviders)
    return fail('quota_exceeded', { quota: `${limits.identityProviders} sign-in providers` })
  const { id, domains } = input
  if (!(await insertProvider(tx, { ...columnsOf(vault, input), id, account_id: null, domains })))
    return failField(['id'], 'sso_provider_exists', { id })
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'sso_provider.add',
    subject: id,
    detail: { name: input.name, issuer: input.issuer ?? GITHUB, domains: domains ?? [] },
  })
  return readProvider(tx.db, id)
}

export async function changeSsoProvider(
  { vault }: Pick<App, 'vault'>,
  tx: Tx,
  actor: Actor,
  id: string,
  change: ProviderChange,
): Promise<Result<ListedProvider>> {
  const provider = await findProvider(tx.db, id)
  if (provider === undefined) return fail('sso_provider_not_found')
  const { name, issuer, clientId, clientSecret, domains, requiredDomain, disabled } = change
  const refused = refuseIssuer(issuer)
  if (refused !== undefined) return refused
  await startAnew(tx, provider, { issuer: issuer ?? provider.issuer, clientId: clientId ?? provider.client_id })
  await updateProvider(tx, id, {
    ...(name === undefined ? {} : { name }),
    ...(issuer === undefined ? {} : { issuer }),
    ...(clientId === undefined ? {} : { client_id: clientId }),
    ...(clientSecret === undefined
      ? {}
      : { client_secret_sealed: clientSecret === null ? null : vault.seal(clientSecret) }),
    ...(domains === undefined ? {} : { domains }),
    ...(requiredDomain === undefined ? {} : { required_domain: requiredDomain }),
    ...(disabled === undefined ? {} : { disabled_at: toDateOrNull(disabled ? tx.clock.now() : null) }),
  })
  const { clientSecret: _, ...changedFields } = change
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'sso_provider.change',
    subject: id,
    ...(provider.account_id === null ? {} : { accountId: provider.account_id }),
    detail: { changed: { ...changedFields, ...(clientSecret === undefined ? {} : { clientSecret: 'replaced' }) } },
  })
  return readProvider(tx.db, id)
}

export async function removeSsoProvider(tx: Tx, actor: Actor, id: string): Promise<Result<ListedProvider>> {
  const provider = await findProvider(tx.db, id)
  if (provider === undefined) return fail('sso_provider_not_found')
  await deleteProvider(tx, id)
  const { name, account_id: accountId } = provider
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'sso_provider.remove',
    subject: id,
    ...(accountId === null ? {} : { accountId }),
    detail: { name },
  })
  return ok(provider)
}

export interface AccountSso {
  readonly provider: ListedProvider | undefined
  readonly requiredProviderId: string | null
  readonly choices: ReadonlyArray<{ readonly id: string; readonly name: string; readonly canRequire: boolean }>
}

export async function getAccountSso(db: Db, accountId: string): Promise<AccountSso> {
  const providers = await listProvidersOfAccount(db, accountId)
  const choices: Array<{ id: string; name: string; canRequire: boolean }> = []
  for (const { id, name } of providers) choices.push({ id, name, canRequire: await hasOwnerAt(db, accountId, id) })
  const provider = await findAccountProvider(db, accountId)
  return { provider, requiredProviderId: await findRequiredProviderId(db, accountId), choices }
}

/** Call it before the transaction: it resolves a name. */
export async function refuseAccountIssuer(
  { allowPrivateAddresses }: Pick<App, 'allowPrivateAddresses'>,
  issuer: string | undefined,
): Promise<Failure | undefined> {
  const problem = await checkOutboundUrl(issuer ?? GITHUB, allowPrivateAddresses)
  if (problem !== undefined) return failField(['issuer'], 'sso_bad_issuer', { problem })
  return isProviderUrl(issuer ?? GITHUB, allowPrivateAddresses) ? undefined : badIssuer('it must begin with https://')
}

export async function setAccountSso(
  { vault }: Pick<App, 'vault'>,
  tx: Tx,
  actor: Actor,
  input: ProviderInput,
): Promise<Result<AccountSso>> {
  const refused = await requireOwner(tx, actor, 'set up sign-in')
  if (refused !== undefined) return refused
  const { accountId } = actor
  await lockAccount(tx, accountId)
  const columns = columnsOf(vault, input)
  const provider = await findAccountProvider(tx.db, accountId)
  if (provider === undefined) await insertProvider(tx, { ...columns, id: randomProviderId(), account_id: accountId })
  else {
    const isOther = provider.issuer !== columns.issuer || provider.client_id !== columns.client_id
    if (isOther && (await isProviderRequired(tx.db, provider.id))) return fail('sso_is_required')
    await startAnew(tx, provider, { issuer: columns.issuer, clientId: columns.client_id })
    const { client_secret_sealed: secret, ...settings } = columns
    // The secret belongs to the client.
    const keepsSecret = secret === null && provider.client_id === columns.client_id
    await updateProvider(tx, provider.id, { ...settings, ...(keepsSecret ? {} : { client_secret_sealed: secret }) })
  }
  const detail = { name: input.name, issuer: columns.issuer }
  await writeAudit(tx, { actor: actor.keyId, action: 'account.set_sso', accountId, detail })
  return ok(await getAccountSso(tx.db, accountId))
}

export async function requireAccountSso(tx: Tx, actor: Actor, providerId: string | null): Promise<Result<AccountSso>> {
  const refused = await requireOwner(tx, actor, 'change how members sign in')
  if (refused !== undefined) return refused
  const { accountId } = actor
  await lockAccount(tx, accountId)
  if (providerId !== null) {
    const provider = (await listProvidersOfAccount(tx.db, accountId)).find(({ id }) => id === providerId)
    if (provider === undefined) return fail('sso_provider_not_found')
    if (!(await hasOwnerAt(tx.db, accountId, providerId))) return fail('sso_not_tried')
  }
  await setRequiredProvider(tx, accountId, providerId)
  const detail = { name: providerId ?? 'none' }
  await writeAudit(tx, { actor: actor.keyId, action: 'account.require_sso', accountId, detail })
  return ok(await getAccountSso(tx.db, accountId))
}

export async function removeAccountSso(tx: Tx, actor: Actor): Promise<Result<ListedProvider>> {
  const refused = await requireOwner(tx, actor, 'remove the sign-in provider')
  if (refused !== undefined) return refused
  const { accountId } = actor
  const provider = await findAccountProvider(tx.db, accountId)
  if (provider === undefined) return fail('sso_provider_not_found')
  await deleteProvider(tx, provider.id)
  const detail = { name: provider.name }
  await writeAudit(tx, { actor: actor.keyId, action: 'account.remove_sso', accountId, detail })
  return ok(provider)
}

/** Another issuer means other people, and another client needs another test. */
async function startAnew(
  tx: Tx,
  provider: IdentityProvider,
  next: { readonly issuer: string; readonly clientId: string },
): Promise<void> {
  const isOtherIssuer = next.issuer !== provider.issuer
  if (isOtherIssuer) await endProviderUse(tx, provider.id)
  if (isOtherIssuer || next.clientId !== provider.client_id)
    await updateProvider(tx, provider.id, { succeeded_at: null, failed_at: null, last_error: null })
}

function columnsOf(vault: App['vault'], input: ProviderInput) {
  const { kind, name, issuer = GITHUB, clientId, clientSecret, requiredDomain = null } = input
  return {
    kind,
    name,
    issuer,
    client_id: clientId,
    client_secret_sealed: clientSecret === undefined ? null : vault.seal(clientSecret),
    required_domain: requiredDomain,
  }
}

function refuseIssuer(issuer: string | undefined): Failure | undefined {
  if (issuer === undefined || isProviderUrl(issuer, true)) return undefined
  return badIssuer('it must begin with https://, except on this machine')
}

function badIssuer(problem: string): Failure {
  return failField(['issuer'], 'sso_bad_issuer', { problem })
}

/** Nobody can take a name that people know. */
function randomProviderId(): string {
  return `sso-${randomBytes(8).toString('hex')}`
}

async function readProvider(db: Db, id: string): Promise<Result<ListedProvider>> {
  const provider = await findProvider(db, id)
  return provider === undefined ? fail('sso_provider_not_found') : ok(provider)
}
