/** The answer to a request of node:http. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { contained } from './contained.ts'

/**
 * Resolves with the answer. Rejects if there is none, even when the request ends without an error: after an unexpected
 * 101, node:http reports nothing more.
 */
export function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', contained(reject, resolve))
    // An error may also come after the answer.
    request.on('error', reject)
    request.once('close', () => reject(new Error('the connection ended without an answer')))
  })
}
