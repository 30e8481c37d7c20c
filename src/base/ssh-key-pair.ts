/**
 * An Ed25519 key pair in OpenSSH's own format, so that the first login works without `ssh-keygen`. ssh2 can generate
 * keys too, but cannot read 3 in 1,000 of its own.
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto'

export interface SshKeyPair {
  readonly privateKey: string
  readonly publicKey: string
}

export function makeSshKeyPair(comment: string): SshKeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const x = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url')
  const d = Buffer.from(privateKey.export({ format: 'jwk' }).d ?? '', 'base64url')
  const type = field('ssh-ed25519')
  const publicBlob = Buffer.concat([type, field(x)])
  // The format repeats the check number: after decryption (not used here) the two must match.
  const check = randomBytes(4)
  const secret = Buffer.concat([check, check, type, field(x), field(Buffer.concat([d, x])), field(comment)])
  const padding = Buffer.from(Array.from({ length: (8 - (secret.length % 8)) % 8 }, (_, i) => i + 1))
  const one = Buffer.from([0, 0, 0, 1])
  const file = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    field('none'),
    field('none'),
    field(''),
    one,
    field(publicBlob),
    field(Buffer.concat([secret, padding])),
  ])
  const lines = file.toString('base64').match(/.{1,70}/g) ?? []
  return {
    privateKey: ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n'),
    publicKey: `ssh-ed25519 ${publicBlob.toString('base64')} ${comment}`,
  }
}

/** An SSH string: length first. */
function field(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}
