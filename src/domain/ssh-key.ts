/** OpenSSH public keys: parsed strictly, identified by their SHA-256 fingerprint. */
import { createHash } from 'node:crypto'

const types = new Set([
  'ssh-ed25519',
  'ssh-rsa',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
])

export interface SshPublicKey {
  /** Type, key and comment, on one line. */
  readonly text: string
  readonly fingerprint: string
}

/** One key on one line, as `ssh-keygen` writes it; options before the type are rejected. */
export function parseSshPublicKey(text: string): SshPublicKey | undefined {
  const match = /^(\S+) +([A-Za-z0-9+/]+={0,2})(?: +([^\r\n]*))?$/.exec(text.trim())
  if (!match) return undefined
  const [, type = '', encoded = '', comment = ''] = match
  if (!types.has(type)) return undefined
  const blob = Buffer.from(encoded, 'base64')
  // The blob repeats the type, length first. A private key or a cut line does not.
  if (blob.length < 4 + type.length + 32) return undefined
  if (blob.readUInt32BE(0) !== type.length || blob.toString('latin1', 4, 4 + type.length) !== type) return undefined
  const digest = createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')
  return { text: [type, encoded, comment.trim()].filter(Boolean).join(' '), fingerprint: `SHA256:${digest}` }
}
