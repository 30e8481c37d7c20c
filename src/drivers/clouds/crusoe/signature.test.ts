/** Signatures, checked against one that was computed with OpenSSL. */
import { expect, test } from 'vitest'
import { instantOf } from '../../../base/instant.ts'
import { signatureHeaders } from './signature.ts'

const key = { id: 'key', secret: Buffer.from('0123456789abcdef').toString('base64url') }
const now = instantOf(Date.UTC(2026, 10, 16, 12, 0, 0, 123))

test('a request is signed over path, sorted query, method and time', () => {
  // printf '/v1/projects/p/compute/vms/instances\na=2&b=1\nGET\n2026-11-16T12:00:00+00:00\n' | openssl dgst -sha256 -hmac 0123456789abcdef
  expect(signatureHeaders(key, { method: 'GET', path: '/v1/projects/p/compute/vms/instances?b=1&a=2' }, now)).toEqual({
    'x-crusoe-timestamp': '2026-11-16T12:00:00+00:00',
    authorization: 'Bearer 1.0:key:w-F8LtUnDe6J9VkfdaX4DWpJ6qFO8u_M32aop6x_Tqc',
  })
})
