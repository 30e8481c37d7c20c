/**
 * A client that does not take its answer. A picture has megabytes, and all of them stay in memory until the client has
 * read them; whoever pays for a few and reads none would fill the server. Only a stop counts: as long as something is
 * taken, however slowly, it goes on.
 */
import type { ServerResponse } from 'node:http'

const UNREAD_MS = 120_000

/** To be called when the answer is there: one that is still waited for is silent for long, and rightly so. */
export function endUnread(response: ServerResponse, unreadMs = UNREAD_MS): void {
  // Node ends the connection of a response that nobody hears of this for. After the answer it sets the time anew.
  response.setTimeout(unreadMs)
}
