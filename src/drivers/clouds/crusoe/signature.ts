/**
 * Crusoe's signatures: HMAC-SHA256 over path, sorted query, method and time, one per line, with the secret key in
 * URL-safe Base64. The body is not signed.
 */
import { createHmac } from 'node:crypto'
import { toDate, type Instant } from '../../../base/instant.ts'
import type { OutgoingRequest } from '../http.ts'

export interface AccessKey {
  readonly id: string
  readonly secret: string
}

const VERSION = '1.0'

export function signatureHeaders(
  key: AccessKey,
  { method, path }: Pick<OutgoingRequest, 'method' | 'path'>,
  now: Instant,
): Record<string, string> {
  const [pathname = '', query = ''] = path.split('?')
  const time = toDate(now)
    .toISOString()
    .replace(/\.\d{3}Z$/, '+00:00')
  const lines = [pathname, query.split('&').toSorted().join('&'), method, time, '']
  const signature = createHmac('sha256', Buffer.from(key.secret, 'base64url')).update(lines.join('\n'))
  return {
    'x-crusoe-timestamp': time,
    authorization: `Bearer ${VERSION}:${key.id}:${signature.digest('base64url')}`,
  }
}
