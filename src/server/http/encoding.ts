/** Compression of answers, by Accept-Encoding. */
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

const encodings = ['br', 'gzip'] as const
export type Encoding = (typeof encodings)[number]

/** The best encoding that the client accepts; undefined: none. */
export function chooseEncoding(accepted: string | undefined): Encoding | undefined {
  const takes = new Map(
    (accepted ?? '').split(',').map((one) => {
      const [name = '', ...more] = one.split(';').map((part) => part.trim().toLowerCase())
      return [name, !more.some((part) => /^q=0(\.0*)?$/.test(part))]
    }),
  )
  return encodings.find((one) => takes.get(one) ?? takes.get('*') ?? false)
}

/** Compresses on the thread pool. `brotliQuality`: 0 to 11, slower with each step. */
export async function compress(plain: Buffer, encoding: Encoding, brotliQuality: number): Promise<Buffer> {
  if (encoding === 'gzip') return promisify(gzip)(plain)
  return promisify(brotliCompress)(plain, {
    params: { [constants.BROTLI_PARAM_QUALITY]: brotliQuality, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length },
  })
}
