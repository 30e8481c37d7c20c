/**
 * GitHub, which has no ID token: the person is the numeric id, and the address is the primary, verified one. All
 * addresses of its API follow from the issuer, so nobody can pass another server off as GitHub.
 */
import { createHash } from 'node:crypto'
import { isRecord } from '../../base/json.ts'
import {
  done,
  GITHUB,
  problem,
  problemOf,
  type Outcome,
  type ProviderCheck,
  type ProviderPerson,
  type ProviderProtocol,
  type ProviderSettings,
  type SignInAnswer,
  type SignInRequest,
} from './sso-protocol.ts'

const SCOPES = 'read:user user:email'

export class GithubProtocol implements ProviderProtocol {
  async begin({ issuer, clientId }: ProviderSettings, request: SignInRequest): Promise<Outcome<URL>> {
    if (request.isStepUp) return problem('sso_cannot_confirm', 'GitHub does not state when a person signed in there')
    const url = new URL(`${baseOf(issuer)}/login/oauth/authorize`)
    url.search = new URLSearchParams({
      response_type: 'code',
      client_id: clientId,
      redirect_uri: request.redirectUri,
      scope: SCOPES,
      state: request.state,
      code_challenge: createHash('sha256').update(request.verifier).digest('base64url'),
      code_challenge_method: 'S256',
    }).toString()
    return done(url)
  }

  async finish(settings: ProviderSettings, answer: SignInAnswer): Promise<Outcome<ProviderPerson>> {
    const { search } = answer
    const base = baseOf(settings.issuer)
    const issuer = search.get('iss')
    if (issuer !== null && issuer !== base && issuer !== `${base}/login/oauth`)
      return problem('sso_rejected', 'the answer is of another issuer')
    const refused = search.get('error')
    if (refused !== null) return problem('sso_denied', `the provider answered: ${refused.slice(0, 100)}`)
    const code = search.get('code')
    if (code === null || search.getAll('code').length > 1) return problem('sso_rejected', 'there is no code')
    try {
      const token = await exchange(settings, answer, code)
      if (token === undefined) return problem('sso_rejected', 'the code was not exchanged for a token')
      return await readPerson(settings, token)
    } catch (error) {
      return problemOf(error)
    }
  }

  async check({ issuer, fetch }: ProviderSettings): Promise<ProviderCheck[]> {
    const notNeeded = 'GitHub has no ID token: its answers come over its own connection'
    const others: ProviderCheck[] = [{ check: 'keys', result: 'not_tried', detail: notNeeded }]
    try {
      const answer = await fetch(`${apiOf(issuer)}/meta`, { headers: headersOf() })
      const result = answer.status === 200 ? 'passed' : 'failed'
      return [
        { check: 'reachable', result, detail: `${apiOf(issuer)} answered with status ${answer.status}` },
        ...others,
      ]
    } catch (error) {
      return [{ check: 'reachable', result: 'failed', detail: problemOf(error).detail }, ...others]
    }
  }
}

function baseOf(issuer: string): string {
  return issuer.replace(/\/+$/, '')
}

/** GitHub Enterprise Server has its API below a path. */
function apiOf(issuer: string): string {
  const base = baseOf(issuer)
  return base === GITHUB ? 'https://api.github.com' : `${base}/api/v3`
}

function headersOf(token?: string): Record<string, string> {
  return {
    Accept: 'application/vnd.github+json',
    'User-Agent': 'Berth',
    ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
  }
}

async function exchange(
  { issuer, clientId, clientSecret, fetch }: ProviderSettings,
  { redirectUri, verifier }: SignInAnswer,
  code: string,
): Promise<string | undefined> {
  const answer = await fetch(`${baseOf(issuer)}/login/oauth/access_token`, {
    method: 'POST',
    headers: { Accept: 'application/json', 'Content-Type': 'application/x-www-form-urlencoded', 'User-Agent': 'Berth' },
    body: new URLSearchParams({
      client_id: clientId,
      ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
      code,
      redirect_uri: redirectUri,
      code_verifier: verifier,
    }).toString(),
  })
  // GitHub answers with status 200 also where it refuses.
  const body: unknown = answer.status === 200 ? await answer.json() : undefined
  return isRecord(body) && typeof body.access_token === 'string' ? body.access_token : undefined
}

async function readPerson({ issuer, fetch }: ProviderSettings, token: string): Promise<Outcome<ProviderPerson>> {
  const read = async (path: string): Promise<unknown> => {
    const answer = await fetch(`${apiOf(issuer)}${path}`, { headers: headersOf(token) })
    return answer.status === 200 ? answer.json() : undefined
  }
  const [user, emails] = await Promise.all([read('/user'), read('/user/emails?per_page=100')])
  if (!isRecord(user) || typeof user.id !== 'number' || !Number.isSafeInteger(user.id))
    return problem('sso_rejected', 'the person has no id')
  const primary = Array.isArray(emails)
    ? emails.filter(isRecord).find((one) => one.primary === true && one.verified === true)
    : undefined
  if (typeof primary?.email !== 'string') return problem('sso_no_address', 'there is no primary, verified address')
  return done({
    issuer: baseOf(issuer),
    subject: String(user.id),
    email: primary.email,
    isEmailVerified: true,
    name: typeof user.name === 'string' && user.name.trim() !== '' ? user.name.trim() : null,
    hostedDomain: null,
    hasFactor: false,
  })
}
