/** The answer to a request of node:http. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { contained } from './contained.ts'

/**
 * Rejects where there is no answer, also when the request ends without an error: node:http says nothing more about one that
 * is answered with a 101 that nobody asked for.
 */
export function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', contained(reject, resolve))
    // An error may also come after the answer.
    request.on('error', reject)
    request.once('close', () => reject(new Error('the connection ended without an answer')))
  })
}
