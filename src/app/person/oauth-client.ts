/**
 * Clients that sign in with OAuth. Nobody registers them: the id of a client is the URL of a document about it, which is
 * read at each decision (Client ID Metadata Documents).
 */
import { z } from 'zod'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { App } from '../app.ts'
import { ProviderUnreachable } from './sso-http.ts'

export interface OauthClient {
  readonly clientId: string
  /** The name that it says it has. */
  readonly name: string
  /** The host of its document. Only this part of the id is proved. */
  readonly host: string
  readonly redirectUri: string
}

const clientDocument = z.object({
  client_id: z.string(),
  client_name: z.string().min(1).max(200).optional(),
  redirect_uris: z.array(z.string().max(2_000)).min(1).max(50),
  token_endpoint_auth_method: z.string().optional(),
})

/** Schemes that a browser itself acts on. Others belong to programs on the person's machine. */
const browserSchemes: ReadonlySet<string> = new Set(
  'about: blob: chrome: data: file: filesystem: ftp: http: javascript: mailto: tel: vbscript: view-source: ws: wss:'.split(
    ' ',
  ),
)

export async function readOauthClient(
  { people }: Pick<App, 'people'>,
  clientId: string,
  redirectUri: string,
): Promise<Result<OauthClient>> {
  if (people === undefined) return fail('people_not_configured')
  const id = URL.canParse(clientId) ? new URL(clientId) : undefined
  if (id === undefined || id.pathname === '/' || id.hash !== '' || id.href !== clientId)
    return fail('oauth_client_invalid', { problem: 'Its id is not the URL of a document.' })
  let text: string
  try {
    const answer = await people.readDocument(clientId)
    if (answer.status !== 200)
      return fail('oauth_client_unreachable', { host: id.host, problem: `status ${answer.status}` })
    text = await answer.text()
  } catch (error) {
    if (!(error instanceof ProviderUnreachable)) throw error
    return fail('oauth_client_unreachable', { host: id.host, problem: error.message })
  }
  const read = clientDocument.safeParse(jsonOf(text))
  if (!read.success) return fail('oauth_client_invalid', { problem: 'Its document lacks a required field.' })
  const { client_id: ownId, client_name: name = id.host, redirect_uris: uris, ...document } = read.data
  if (ownId !== clientId) return fail('oauth_client_invalid', { problem: 'Its document is about another client.' })
  if ((document.token_endpoint_auth_method ?? 'none') !== 'none')
    return fail('oauth_client_invalid', { problem: 'It wants to sign in with a secret, which is not supported.' })
  if (!isAllowedTarget(redirectUri) || !uris.some((uri) => isSameTarget(uri, redirectUri)))
    return fail('oauth_redirect_invalid')
  return ok({ clientId, name: name.replaceAll(/\p{C}/gu, ''), host: id.host, redirectUri })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Without encryption a code goes to this machine at most. */
export function isAllowedTarget(uri: string): boolean {
  if (!URL.canParse(uri)) return false
  const { protocol, hash, username, password } = new URL(uri)
  if (hash !== '' || username !== '' || password !== '') return false
  return isLoopback(new URL(uri)) || !browserSchemes.has(protocol)
}

/** A program on the person's machine listens at any free port (RFC 8252, section 7.3). */
export function isSameTarget(listed: string, target: string): boolean {
  if (listed === target) return true
  if (!URL.canParse(listed) || !URL.canParse(target)) return false
  const [one, other] = [new URL(listed), new URL(target)]
  if (!isLoopback(one) || !isLoopback(other)) return false
  return one.hostname === other.hostname && one.pathname === other.pathname && one.search === other.search
}

function isLoopback({ protocol, hostname }: URL): boolean {
  return protocol === 'http:' && ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}
