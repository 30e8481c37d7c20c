/** Accounts at other clouds: adding, changing, rotating and removing them, their prices, and what they cost. */
import { randomId } from '../../base/id.ts'
import { toDate } from '../../base/instant.ts'
import { maxUsd, shareOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { checkOutboundUrl } from '../../base/net/outbound.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import {
  listOfferCosts,
  saveRulePrices,
  writeAskingPrices,
  type OfferCost,
} from '../../store/provider/provider-price.ts'
import {
  countProviderRentals,
  countProviderVolumes,
  findProviderAccount,
  insertProviderAccount,
  updateProviderAccount,
  type ProviderAccount,
  type ProviderRules,
} from '../../store/provider/provider-account.ts'
import type { Actor, App, ProviderAttempt, ProviderKind } from '../app.ts'

export interface NewProvider {
  readonly name: string
  readonly provider: ProviderKind['provider']
  readonly credentials: Readonly<Record<string, string>>
  readonly baseUrl: string | undefined
  readonly rules: Partial<ProviderRules>
}

export const defaultRules: ProviderRules = {
  regions: {},
  markup_bp: null,
  floor_nano_per_gpu_hour: null,
  fixed_nano_per_gpu_hour: null,
  sells_below_cost: false,
  monthly_cap_nano: null,
  preference: 0,
}

export async function addProvider(
  app: App,
  tx: Tx,
  actor: Actor,
  input: NewProvider,
): Promise<Result<ProviderAccount>> {
  const address = await addressOf(app, input)
  if (!address.ok) return address
  const baseUrl = address.value
  if ((await findProviderAccount(tx.db, input.name)) !== undefined)
    return failField(['name'], 'name_in_use', { name: input.name })
  await insertProviderAccount(tx, {
    id: randomId('prv'),
    driver: input.provider,
    name: input.name,
    base_url: baseUrl,
    credentials_sealed: app.vault.seal(JSON.stringify(input.credentials)),
    ...defaultRules,
    ...input.rules,
  })
  await audit(tx, actor, 'provider.add', input.name, { provider: input.provider, baseUrl })
  return read(tx.db, input.name)
}

const ATTEMPT_MS = 60_000

/** Calls the cloud with these credentials and stores nothing. */
export async function tryProvider(
  app: App,
  input: Pick<NewProvider, 'provider' | 'credentials' | 'baseUrl'> & Pick<ProviderRules, 'regions'>,
): Promise<Result<ProviderAttempt>> {
  const { provider, credentials, regions } = input
  const address = await addressOf(app, input)
  if (!address.ok) return address
  if (app.providers === undefined) return failField(['provider'], 'provider_not_supported', { provider })
  const account = { credentials, regions, baseUrl: address.value }
  try {
    return ok(await app.providers.attempt(provider, account, AbortSignal.timeout(ATTEMPT_MS)))
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return fail('provider_unreachable', { name: provider, message })
  }
}

/** The address of the cloud, if it is known, has all credentials and may be called. */
async function addressOf(
  app: App,
  input: Pick<NewProvider, 'provider' | 'credentials' | 'baseUrl'>,
): Promise<Result<string>> {
  const kind = app.providers?.kinds.find(({ provider }) => provider === input.provider)
  if (kind === undefined) return failField(['provider'], 'provider_not_supported', { provider: input.provider })
  const wrong = findCredentialFault(kind, input.credentials)
  if (wrong !== undefined) return failField(['credentials', wrong.name], wrong.reason)
  const baseUrl = input.baseUrl ?? kind.baseUrl
  const fault = await checkOutboundUrl(baseUrl, app.allowPrivateAddresses)
  return fault === undefined ? ok(baseUrl) : failField(['baseUrl'], 'bad_provider_url', { message: fault })
}

export async function changeProvider(
  tx: Tx,
  actor: Actor,
  name: string,
  change: { readonly rules: Partial<ProviderRules>; readonly suspended: boolean | undefined },
): Promise<Result<ProviderAccount>> {
  const account = await read(tx.db, name)
  if (!account.ok) return account
  const { regions, ...rest } = change.rules
  const { suspended } = change
  await updateProviderAccount(tx, account.value.id, {
    ...rest,
    ...(regions === undefined ? {} : { regions: JSON.stringify(regions) }),
    ...(suspended === undefined ? {} : { suspended_at: suspended ? toDate(tx.clock.now()) : null }),
    version: account.value.version,
  })
  await audit(tx, actor, 'provider.change', name, { fields: Object.keys(change.rules), suspended: suspended ?? null })
  return read(tx.db, name)
}

export async function rotateProvider(
  app: App,
  tx: Tx,
  actor: Actor,
  name: string,
  credentials: Readonly<Record<string, string>>,
): Promise<Result<ProviderAccount>> {
  const account = await read(tx.db, name)
  if (!account.ok) return account
  const kind = app.providers?.kinds.find(({ provider }) => provider === account.value.driver)
  const wrong = kind === undefined ? undefined : findCredentialFault(kind, credentials)
  if (wrong !== undefined) return failField(['credentials', wrong.name], wrong.reason)
  await updateProviderAccount(tx, account.value.id, {
    credentials_sealed: app.vault.seal(JSON.stringify(credentials)),
    version: account.value.version + 1,
  })
  await audit(tx, actor, 'provider.rotate', name, {})
  return read(tx.db, name)
}

/** The row stays, since its name is part of ids; its credentials do not. */
export async function removeProvider(app: App, tx: Tx, actor: Actor, name: string): Promise<Result<string>> {
  const account = await read(tx.db, name)
  if (!account.ok) return account
  const rentals = await countProviderRentals(tx.db, account.value)
  const volumes = await countProviderVolumes(tx.db, account.value)
  if (rentals + volumes > 0) return fail('provider_in_use', { name, rentals, volumes })
  await updateProviderAccount(tx, account.value.id, {
    credentials_sealed: app.vault.seal('{}'),
    removed_at: toDate(tx.clock.now()),
    version: account.value.version + 1,
  })
  await audit(tx, actor, 'provider.remove', name, {})
  return ok(name)
}

async function read(db: Db, name: string): Promise<Result<ProviderAccount>> {
  const account = await findProviderAccount(db, name)
  return account === undefined || account.removed_at !== null ? fail('provider_not_found', { name }) : ok(account)
}

function findCredentialFault(
  kind: ProviderKind,
  credentials: Readonly<Record<string, string>>,
): { name: string; reason: 'missing_credential' | 'unknown_credential' } | undefined {
  const names = kind.credentials.map(({ name }) => name)
  const missing = kind.credentials.find(
    ({ name, optional }) => optional !== true && (credentials[name] ?? '') === '',
  )?.name
  if (missing !== undefined) return { name: missing, reason: 'missing_credential' }
  const unknown = Object.keys(credentials).find((name) => !names.includes(name))
  return unknown === undefined ? undefined : { name: unknown, reason: 'unknown_credential' }
}

async function audit(
  tx: Tx,
  actor: Actor,
  action: 'provider.add' | 'provider.change' | 'provider.rotate' | 'provider.remove',
  subject: string,
  detail: Record<string, unknown>,
): Promise<void> {
  await writeAudit(tx, { actor: actor.keyId, action, subject, detail })
}

const WHOLE_BP = 10_000

/** The selling price of an offer by the rule of its account. Never below cost unless the account says so. */
function rulePrice(offer: OfferCost): NanoUsd | undefined {
  const { cost, markupBp, floor, fixed, sellsBelowCost } = offer
  if (fixed === null && markupBp === null) return undefined
  const byMarkup = maxUsd(shareOf(cost, WHOLE_BP + (markupBp ?? 0)), floor ?? zeroUsd)
  const price = fixed ?? byMarkup
  return sellsBelowCost ? price : maxUsd(price, cost)
}

/**
 * Sets the prices of offers whose account has a rule. The price book has one price for machines of one kind: the lowest
 * of the accounts that have some free. Accounts that ask more are not on sale until the others are sold out, so no offer
 * is sold below the price of its own rule.
 */
export async function applyPriceRules(tx: Tx): Promise<void> {
  const offers = (await listOfferCosts(tx.db)).flatMap((offer) => {
    const price = rulePrice(offer)
    const { machineType, region, gpuType, networkType, gpuCount, accountId, hasRoom } = offer
    if (price === undefined) return []
    return [{ hasRoom, asking: { machineType, region, gpuType, networkType, gpuCount, accountId, price } }]
  })
  const lowest = new Map<string, (typeof offers)[number]>()
  for (const offer of offers) {
    const { machineType, region, gpuType, networkType, gpuCount, price } = offer.asking
    const key = [machineType, region, gpuType, networkType, gpuCount].join()
    const cheapest = lowest.get(key)
    const isBetter =
      cheapest === undefined || (offer.hasRoom === cheapest.hasRoom ? price < cheapest.asking.price : offer.hasRoom)
    if (isBetter) lowest.set(key, offer)
  }
  await saveRulePrices(
    tx,
    [...lowest.values()].map(({ asking }) => asking),
  )
  await writeAskingPrices(
    tx,
    offers.map(({ asking }) => asking),
  )
}
