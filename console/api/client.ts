/**
 * The typed client, as the page's own server answers it: who is signed in is known by a cookie that scripts cannot
 * read. The header is one that no form of another site can send.
 */
import { makeClient } from '../../src/client/client.ts'
import { CONSOLE_HEADER, CONSOLE_HEADER_VALUE } from '../../src/contract/session.ts'

const CONSOLE_HEADERS = { [CONSOLE_HEADER]: CONSOLE_HEADER_VALUE } as const

/** For what the client does not do: streams of answers. Paths only, so that nothing leaves the server. */
export function consoleFetch(path: `/${string}`, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers)
  for (const [name, value] of Object.entries(CONSOLE_HEADERS)) headers.set(name, value)
  return fetch(path, { ...init, headers, credentials: 'same-origin' })
}

export const client = makeClient({
  url: location.origin,
  fetch: (input, init) => {
    const headers = new Headers(init?.headers)
    for (const [name, value] of Object.entries(CONSOLE_HEADERS)) headers.set(name, value)
    return fetch(input, { ...init, headers, credentials: 'same-origin' })
  },
})
