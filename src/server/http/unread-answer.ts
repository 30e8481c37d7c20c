/**
 * Cuts off clients that do not read their answer. An image has megabytes, which stay in memory until the client has
 * read them; a client that requests a few and reads none would fill the server. Only a standstill counts, so a slow
 * reader is not cut off.
 */
import type { ServerResponse } from 'node:http'

const UNREAD_MS = 120_000

/** Call when the answer is ready: until then silence is normal. */
export function endUnread(response: ServerResponse, unreadMs = UNREAD_MS): void {
  // Without a listener, Node destroys the socket on timeout. After the answer it resets the timeout.
  response.setTimeout(unreadMs)
}
