/**
 * Makes an Ed25519 key pair in the browser, in the formats of OpenSSH. The private key never leaves this page except as
 * the downloaded file.
 */

/** The format is described in `PROTOCOL.key` of OpenSSH. */
const MAGIC = 'openssh-key-v1\0'
const TYPE = 'ssh-ed25519'
/** Without a passphrase the private part is padded to blocks of this size. */
const BLOCK_BYTES = 8
const LINE_CHARS = 70

export interface KeyPair {
  /** One line, as in a `.pub` file. */
  readonly publicKey: string
  /** The content of the private file. */
  readonly privateKey: string
}

/** undefined: the browser cannot generate keys, or the page is not served over HTTPS. */
export async function generateKeyPair(comment: string): Promise<KeyPair | undefined> {
  try {
    const pair = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify'])
    const point = new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey))
    // PKCS #8 ends with the seed.
    const seed = new Uint8Array(await crypto.subtle.exportKey('pkcs8', pair.privateKey)).slice(-32)
    return { publicKey: publicLine(point, comment), privateKey: privateFile(point, seed, comment) }
  } catch (error) {
    // An older browser, or no secure context: then `crypto.subtle` is undefined.
    if (error instanceof DOMException || error instanceof TypeError) return undefined
    throw error
  }
}

function publicLine(point: Uint8Array, comment: string): string {
  return `${TYPE} ${base64(publicBlob(point))} ${comment}`.trim()
}

function publicBlob(point: Uint8Array): Uint8Array {
  return join(field(text(TYPE)), field(point))
}

function privateFile(point: Uint8Array, seed: Uint8Array, comment: string): string {
  // The same random number twice: with a passphrase, equal numbers show that it was right.
  const check = crypto.getRandomValues(new Uint8Array(4))
  const secret = join(check, check, field(text(TYPE)), field(point), field(join(seed, point)), field(text(comment)))
  const missing = (BLOCK_BYTES - (secret.length % BLOCK_BYTES)) % BLOCK_BYTES
  const padding = Uint8Array.from({ length: missing }, (_, n) => n + 1)
  const none = field(text('none'))
  const body = join(
    text(MAGIC),
    none,
    none,
    field(new Uint8Array()),
    uint32(1),
    field(publicBlob(point)),
    field(join(secret, padding)),
  )
  const lines = base64(body).match(new RegExp(`.{1,${LINE_CHARS}}`, 'g')) ?? []
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n')
}

function text(value: string): Uint8Array {
  return new TextEncoder().encode(value)
}

function uint32(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value)
  return bytes
}

/** Writes the bytes after their length. */
function field(bytes: Uint8Array): Uint8Array {
  return join(uint32(bytes.length), bytes)
}

function join(...parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCodePoint(...bytes))
}
