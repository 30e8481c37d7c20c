/**
 * The part of GitHub that signs people in, on a port of its own: the OAuth pages below `/login/oauth` and the API as
 * GitHub Enterprise Server has it, below `/api/v3`. It checks what GitHub checks, PKCE too.
 */
import { createHash, randomBytes } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface GithubUser {
  readonly id: number
  readonly name: string | null
  readonly emails: ReadonlyArray<{ readonly email: string; readonly primary: boolean; readonly verified: boolean }>
}

export interface GithubTest {
  readonly url: string
  /** Who is signed in there from now on. */
  user: GithubUser
  fault: 'denied' | 'down' | undefined
  /** The query of each page that a browser opened. */
  readonly authorizations: URLSearchParams[]
  /** Opens the page as a browser, and returns where it is sent back to. */
  visit(url: string): Promise<URL>
  close(): Promise<void>
}

export const GITHUB_CLIENT = { id: 'Iv1.0123456789abcdef', secret: 'secret of the app at GitHub' } as const

interface Grant {
  readonly user: GithubUser
  readonly redirectUri: string
  readonly challenge: string
}

export async function startGithub(): Promise<GithubTest> {
  const codes = new Map<string, Grant>()
  const tokens = new Map<string, GithubUser>()
  const server = http.createServer((request, response) => {
    void answer(request).then(({ status, headers, body }) =>
      response
        .writeHead(status, { 'Content-Type': 'application/json', ...headers })
        .end(body === undefined ? '' : JSON.stringify(body)),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const answer = async (request: http.IncomingMessage): Promise<GithubAnswer> => {
    const { pathname, searchParams } = new URL(request.url ?? '/', url)
    if (github.fault === 'down') return { status: 503 }
    if (pathname === '/login/oauth/authorize') return authorize(searchParams)
    if (pathname === '/login/oauth/access_token' && request.method === 'POST')
      return { status: 200, body: exchange(new URLSearchParams(await text(request))) }
    if (pathname === '/api/v3/meta') return { status: 200, body: {} }
    // GitHub refuses programs that do not name themselves.
    if (request.headers['user-agent'] === undefined) return { status: 403 }
    const user = tokens.get(/^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '')
    if (user === undefined) return { status: 401, body: { message: 'Bad credentials' } }
    const { id, name, emails } = user
    if (pathname === '/api/v3/user') return { status: 200, body: { login: `user-${id}`, id, name, email: null } }
    return pathname === '/api/v3/user/emails' ? { status: 200, body: emails } : { status: 404 }
  }

  const authorize = (query: URLSearchParams): GithubAnswer => {
    github.authorizations.push(query)
    const back = new URL(query.get('redirect_uri') ?? url)
    back.searchParams.set('state', query.get('state') ?? '')
    if (github.fault === 'denied') back.searchParams.set('error', 'access_denied')
    else {
      const code = randomBytes(10).toString('hex')
      const challenge = query.get('code_challenge') ?? ''
      codes.set(code, { user: github.user, redirectUri: query.get('redirect_uri') ?? '', challenge })
      back.searchParams.set('code', code)
    }
    return { status: 302, headers: { Location: back.href } }
  }

  const exchange = (form: URLSearchParams): object => {
    const code = form.get('code') ?? ''
    const grant = codes.get(code)
    codes.delete(code)
    if (form.get('client_id') !== GITHUB_CLIENT.id || form.get('client_secret') !== GITHUB_CLIENT.secret)
      return { error: 'incorrect_client_credentials' }
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    if (grant === undefined || grant.challenge !== challenge || grant.redirectUri !== form.get('redirect_uri'))
      return { error: 'bad_verification_code' }
    const token = `gho_${randomBytes(18).toString('hex')}`
    tokens.set(token, grant.user)
    return { access_token: token, token_type: 'bearer', scope: 'read:user,user:email' }
  }

  const github: GithubTest = {
    url,
    user: { id: 0, name: null, emails: [] },
    fault: undefined,
    authorizations: [],
    visit: async (page) => {
      const { headers } = await fetch(page, { redirect: 'manual' })
      return new URL(headers.get('location') ?? '')
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return github
}

interface GithubAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}
