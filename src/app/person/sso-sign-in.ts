/**
 * Sign-in at a provider: it begins with a row that holds what the answer must repeat, and ends when the browser comes back.
 * The row is deleted before the answer is checked, so an answer counts once. Providers are called between transactions.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { sha256 } from '../../base/id.ts'
import { addMs } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { deleteSessionById, findSessionById, type ConsoleSession } from '../../store/account/console-session.ts'
import {
  clearProviderFailure,
  findProvider,
  noteProviderFailure,
  noteProviderSuccess,
  type IdentityProvider,
} from '../../store/account/identity-provider.ts'
import { findPerson } from '../../store/account/person.ts'
import {
  deleteProviderSignIn,
  insertProviderSignIn,
  lockProviderSignIn,
  type SignInRow,
} from '../../store/account/provider-sign-in.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { App, PeopleSettings } from '../app.ts'
import { sendEmailCode } from './email-code.ts'
import { renewSession, startPersonSession, type Browser, type Proof } from './session.ts'
import type { SignUp } from './sign-up.ts'
import { connectPerson, linkPerson, linkProvedAddress, type Linked } from './sso-link.ts'
import type { ProviderPerson, ProviderProblem } from './sso-protocol.ts'

const SECRET_BYTES = 32

/** `test`: nothing changes but what is known about the provider. */
export const providerPurposes = ['sign-in', 'step-up', 'connect', 'test'] as const
export type ProviderPurpose = (typeof providerPurposes)[number]

export interface BeginOptions {
  readonly providerId: string
  readonly purpose: ProviderPurpose
  /** The token of the browser's flow. */
  readonly flow: string
  /** The session that is renewed, or to whose person the identity is added. */
  readonly session: ConsoleSession | undefined
  /** A local path. */
  readonly returnTo: string
}

interface Secrets {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

/** Returns the address at the provider that the browser opens. */
export async function beginProviderSignIn(app: App, options: BeginOptions): Promise<Result<URL>> {
  const { people } = app
  if (people === undefined) return fail('people_not_configured')
  const provider = await findProvider(app.database.db, options.providerId)
  if (provider === undefined) return fail('sso_provider_not_found')
  // Whoever sets a provider up may test it before people use it.
  if (provider.disabled_at !== null && options.purpose !== 'test') return fail('sso_provider_disabled')
  const secrets: Secrets = { state: randomText(), nonce: randomText(), verifier: randomText() }
  const isStepUp = options.purpose === 'step-up'
  const redirectUri = callbackOf(people, provider)
  const url = await people.providers.begin(provider, { ...secrets, redirectUri, isStepUp })
  if (url.kind === 'problem') {
    await noteProblem(app, provider, options.purpose, url)
    return fail(url.reason, { provider: provider.name })
  }
  await transact(app.database, async (tx) => {
    await clearProviderFailure(tx, provider.id)
    await insertProviderSignIn(tx, {
      stateHash: sha256(secrets.state),
      flowHash: sha256(options.flow),
      purpose: options.purpose,
      providerId: provider.id,
      sessionId: options.session?.id ?? null,
      sealed: app.vault.seal(JSON.stringify(secrets)),
      returnTo: options.returnTo,
      expiresAt: addMs(tx.clock.now(), limits.ssoFlowMs),
    })
  })
  return ok(url.value)
}

export interface Callback {
  readonly providerId: string
  /** undefined: the browser has no flow. */
  readonly flow: string | undefined
  readonly search: URLSearchParams
  readonly browser: Browser
  /** For the message with a code. */
  readonly browserName: string
}

export type FinishedSignIn = {
  readonly purpose: ProviderPurpose
  readonly returnTo: string
} & (
  | { readonly kind: 'session'; readonly token: string }
  /** The identity was added, or the test has passed. */
  | { readonly kind: 'done' }
  /** Berth has mailed a code of its own. */
  | { readonly kind: 'code' }
  | { readonly kind: 'refused'; readonly failure: Failure }
)

/** A failure without a purpose: the answer belongs to no sign-in of this browser. */
export async function finishProviderSignIn(app: App, callback: Callback): Promise<Result<FinishedSignIn>> {
  const { people } = app
  if (people === undefined) return fail('people_not_configured')
  const begun = await takeSignIn(app, callback)
  if (begun === undefined) return fail('sso_ended')
  const purpose = begun.purpose as ProviderPurpose
  const end = { purpose, returnTo: begun.return_to }
  const refuse = (failure: Failure): Result<FinishedSignIn> => ok({ ...end, kind: 'refused', failure })
  const provider = await findProvider(app.database.db, callback.providerId)
  if (provider === undefined) return refuse(fail('sso_provider_not_found'))
  if (provider.disabled_at !== null && purpose !== 'test') return refuse(fail('sso_provider_disabled'))
  const secrets = JSON.parse(app.vault.open(begun.sealed ?? '')) as Secrets
  const answer = await people.providers.finish(provider, {
    ...secrets,
    redirectUri: callbackOf(people, provider),
    isStepUp: purpose === 'step-up',
    search: callback.search,
    beganAt: begun.created_at,
    now: app.clock.now(),
  })
  if (answer.kind === 'problem') {
    await noteProblem(app, provider, purpose, answer)
    return refuse(fail(answer.reason, { provider: provider.name }))
  }
  const stated = answer.value
  const finished = await transact(app.database, (tx) => finish(tx, { people, provider, begun, stated, callback }))
  if (!finished.ok) return refuse(finished)
  if (finished.value.kind !== 'unproved') return ok({ ...end, ...finished.value })
  const sent = await sendEmailCode(app, {
    address: finished.value.email,
    flowHash: sha256(callback.flow ?? ''),
    purpose: 'sign-in',
    identitySealed: app.vault.seal(JSON.stringify({ providerId: provider.id, stated } satisfies UnprovedIdentity)),
    browser: callback.browserName,
    ipAddress: callback.browser.address,
    connects: provider.name,
  })
  return sent.ok ? ok({ ...end, kind: 'code' }) : refuse(sent)
}

interface Finish {
  readonly people: PeopleSettings
  readonly provider: IdentityProvider
  readonly begun: SignInRow
  readonly stated: ProviderPerson
  readonly callback: Callback
}

type Ended =
  | { readonly kind: 'session'; readonly token: string }
  | { readonly kind: 'done' }
  | { readonly kind: 'unproved'; readonly email: string }

async function finish(tx: Tx, input: Finish): Promise<Result<Ended>> {
  const { begun, provider, stated, people, callback } = input
  const signUp: SignUp = { mode: people.signUp, ipAddress: callback.browser.address }
  if (begun.purpose === 'test') {
    await noteProviderSuccess(tx, provider.id)
    return ok({ kind: 'done' })
  }
  if (begun.purpose === 'sign-in') {
    const linked = await linkPerson(tx, signUp, provider, stated)
    if (linked.kind === 'refused') return linked.failure
    if (linked.kind === 'unproved') return ok(linked)
    await noteProviderSuccess(tx, provider.id)
    const proof = proofOf(provider, stated)
    // The browser does not send its session with this request, which comes from another site.
    if (begun.session_id !== null) await deleteSessionById(tx, begun.session_id)
    return ok({ kind: 'session', token: await startPersonSession(tx, linked.personId, proof, callback.browser) })
  }
  const session = await findSessionById(tx.db, begun.session_id ?? '', tx.clock.now())
  if (session?.personId === null || session?.personId === undefined) return fail('session_ended')
  const person = await findPerson(tx.db, session.personId)
  if (person === undefined || person.disabled_at !== null) return fail('person_disabled')
  if (begun.purpose === 'connect') {
    const connected = await connectPerson(tx, provider, stated, person.id)
    if (!connected.ok) return connected
    await noteProviderSuccess(tx, provider.id)
    return ok({ kind: 'done' })
  }
  const linked = await linkPerson(tx, signUp, provider, stated)
  if (linked.kind !== 'person' || linked.personId !== person.id)
    return fail('sso_other_person', { provider: provider.name })
  await noteProviderSuccess(tx, provider.id)
  return ok({ kind: 'session', token: await renewSession(tx, session.id, proofOf(provider, stated)) })
}

function proofOf(provider: IdentityProvider, { hasFactor }: ProviderPerson): Proof {
  return { method: 'provider', providerId: provider.id, hasFactor }
}

interface UnprovedIdentity {
  readonly providerId: string
  readonly stated: ProviderPerson
}

/** The code was right, so the address is proved. Returns the person, and how they have signed in. */
export async function linkAfterCode(
  { vault }: Pick<App, 'vault'>,
  tx: Tx,
  signUp: SignUp,
  sealed: string,
): Promise<Result<{ readonly personId: string; readonly proof: Proof }>> {
  const { providerId, stated } = JSON.parse(vault.open(sealed)) as UnprovedIdentity
  const provider = await findProvider(tx.db, providerId)
  if (provider === undefined) return fail('sso_provider_not_found')
  if (provider.disabled_at !== null) return fail('sso_provider_disabled')
  const { email } = stated
  if (email === null) return fail('sso_no_address', { provider: provider.name })
  const linked: Linked = await linkProvedAddress(tx, signUp, provider, { ...stated, email })
  if (linked.kind === 'refused') return linked.failure
  if (linked.kind === 'unproved') return fail('sso_no_address', { provider: provider.name })
  await noteProviderSuccess(tx, provider.id)
  return ok({ personId: linked.personId, proof: proofOf(provider, stated) })
}

/** undefined: the answer is of another browser or provider, too late, or was used. */
async function takeSignIn(app: App, { providerId, flow, search }: Callback): Promise<SignInRow | undefined> {
  const states = search.getAll('state')
  const [state = ''] = states
  if (flow === undefined || states.length !== 1) return undefined
  const signIn = await transact(app.database, async (tx): Promise<Result<SignInRow | undefined>> => {
    const stateHash = sha256(state)
    const row = await lockProviderSignIn(tx, stateHash)
    if (row === undefined) return ok(undefined)
    // Another browser does not end it, but each answer to the right one does.
    if (!timingSafeEqual(row.flow_hash, sha256(flow)) || !timingSafeEqual(row.state_hash, stateHash))
      return ok(undefined)
    await deleteProviderSignIn(tx, stateHash)
    return ok(row.provider_id === providerId ? row : undefined)
  })
  return signIn.ok ? signIn.value : undefined
}

/** Only what the provider itself has failed at says that it is down: everybody can send a wrong answer. */
async function noteProblem(
  app: App,
  provider: IdentityProvider,
  purpose: ProviderPurpose,
  { reason, detail }: ProviderProblem,
): Promise<void> {
  if (reason === 'sso_provider_down' || purpose === 'test')
    await transact(app.database, (tx) => noteProviderFailure(tx, provider.id, detail))
  if (reason === 'sso_rejected') app.warn?.(new Error(detail), `the sign-in provider ${provider.id} was not believed`)
}

function callbackOf({ publicUrl }: PeopleSettings, { id }: IdentityProvider): string {
  return `${publicUrl}/console/sign-in/${id}/callback`
}

function randomText(): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}
