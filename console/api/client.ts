/** The typed client with the session cookie. The extra header cannot be sent by forms of other sites. */
import { makeClient } from '../../src/client/client.ts'
import { CONSOLE_HEADER, CONSOLE_HEADER_VALUE } from '../../src/contract/session.ts'

const CONSOLE_HEADERS = { [CONSOLE_HEADER]: CONSOLE_HEADER_VALUE } as const

/** For streams, which the client does not handle. Takes paths only, so that requests stay on this server. */
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
