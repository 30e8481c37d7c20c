/** Sign-ins of a browser at a provider, from the button to where the server leads in the end. */
import { providerPath } from '../../src/contract/session.ts'
import type { Answer } from './console.ts'
import { CLIENT_ID, CLIENT_SECRET, type OidcTest } from './oidc.ts'
import type { TestBrowser } from './people.ts'
import type { Call } from './server.ts'

/** Browsers in tests know the server by its own address; everybody else is told this one. */
export const PUBLIC_URL = 'https://cloud.example'

export function callbackUrl(id: string): string {
  return `${PUBLIC_URL}${providerPath(id)}/callback`
}

/** Where the answer leads. */
export function locationOf({ status, headers, text }: Answer): string {
  if (status !== 303 || headers.location === undefined) throw new Error(`no redirect: ${status} ${text}`)
  return headers.location
}

/** The parts of the page that the sign-in has led to. */
export function endOf(answer: Answer): { readonly path: string; readonly values: Readonly<Record<string, string>> } {
  const { pathname: path, searchParams } = new URL(locationOf(answer), PUBLIC_URL)
  return { path, values: Object.fromEntries(searchParams) }
}

export async function begin(browser: TestBrowser, id: string, query = ''): Promise<URL> {
  return new URL(locationOf(await browser.send('GET', `${providerPath(id)}${query}`)))
}

/** The provider sends the browser back. */
export function comeBack(browser: TestBrowser, url: URL): Promise<Answer> {
  return browser.follow(`${url.pathname}${url.search}`)
}

export async function signInAt(browser: TestBrowser, oidc: OidcTest, id: string, query = ''): Promise<Answer> {
  const url = await begin(browser, id, query)
  return comeBack(browser, await oidc.visit(url.href))
}

export async function addProvider(
  operator: Call,
  oidc: Pick<OidcTest, 'issuer'>,
  id: string,
  more: object = {},
): Promise<void> {
  const settings = { id, kind: 'oidc', name: `Provider ${id}`, issuer: oidc.issuer, clientId: CLIENT_ID }
  const added = await operator('POST', '/v2/operator/sso', { ...settings, clientSecret: CLIENT_SECRET, ...more })
  if (added.status !== 200) throw new Error(`not added: ${JSON.stringify(added.body)}`)
}
