/**
 * Objects in an S3-compatible store. Links have signature version 4 in the query, so that a host can download one
 * object for a while without knowing the key. Our own calls use such links too. URLs contain the bucket in the path,
 * which every such store supports.
 */
import { createHash, createHmac } from 'node:crypto'
import { formatInstant, type Instant } from '../instant.ts'

export interface ObjectStore {
  /** Without a slash at the end. */
  readonly url: string
  readonly region: string
  readonly accessKey: string
  readonly secretKey: string
  /** The bucket for the server's own objects. undefined: none is configured. */
  readonly bucket?: string | undefined
}

export function objectUrl(store: ObjectStore, bucket: string, key: string): URL {
  return new URL(`${store.url}/${encode(bucket)}/${key.split('/').map(encode).join('/')}`)
}

/** A store with a bucket for the server's own objects. */
export interface Bucket extends ObjectStore {
  readonly bucket: string
}

type Method = 'GET' | 'PUT' | 'DELETE'

const CALL_MS = 60_000

/** Writes, reads or deletes one object. Throws unless the store confirms it; deleting a missing object succeeds. */
export async function callBucket(
  bucket: Bucket,
  method: Method,
  key: string,
  { now, body }: { readonly now: Instant; readonly body?: Uint8Array<ArrayBuffer> },
): Promise<Buffer> {
  const url = presign(bucket, objectUrl(bucket, bucket.bucket, key), now, CALL_MS / 1_000, method)
  const answer = await fetch(url, {
    method,
    signal: AbortSignal.timeout(CALL_MS),
    redirect: 'error',
    ...(body === undefined ? {} : { body }),
  })
  const bytes = Buffer.from(await answer.arrayBuffer())
  if (answer.ok || (method === 'DELETE' && answer.status === 404)) return bytes
  throw new Error(`the object store answered ${method} with status ${answer.status}`)
}

/** A link that is valid for `seconds`. */
export function presign(
  store: Omit<ObjectStore, 'url'>,
  url: URL,
  now: Instant,
  seconds: number,
  method: Method = 'GET',
): string {
  const time = formatInstant(now)
    .replaceAll(/[-:]|\.\d+/g, '')
    .slice(0, 16)
  const scope = `${time.slice(0, 8)}/${store.region}/s3/aws4_request`
  const query = [
    ['X-Amz-Algorithm', 'AWS4-HMAC-SHA256'],
    ['X-Amz-Credential', `${store.accessKey}/${scope}`],
    ['X-Amz-Date', time],
    ['X-Amz-Expires', String(seconds)],
    ['X-Amz-SignedHeaders', 'host'],
  ]
    .map(([name = '', value = '']) => `${encode(name)}=${encode(value)}`)
    .join('&')
  const request = [method, url.pathname, query, `host:${url.host}`, '', 'host', 'UNSIGNED-PAYLOAD'].join('\n')
  const text = ['AWS4-HMAC-SHA256', time, scope, createHash('sha256').update(request).digest('hex')].join('\n')
  const key = [time.slice(0, 8), store.region, 's3', 'aws4_request'].reduce<Buffer | string>(
    (secret, part) => hmac(secret, part),
    `AWS4${store.secretKey}`,
  )
  return `${url.origin}${url.pathname}?${query}&X-Amz-Signature=${hmac(key, text).toString('hex')}`
}

function hmac(key: Buffer | string, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}

/** Stricter than encodeURIComponent, because the signature covers these exact bytes. */
function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
}
