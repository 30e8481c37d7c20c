/**
 * The SSH key pair between the hosts of one rental, derived from a secret of the installation and the rental's tag: every
 * host gets the same key, also after a restart.
 */
import { createHmac, createPrivateKey, createPublicKey } from 'node:crypto'

export interface ClusterKey {
  /** The private key in OpenSSH format. */
  readonly privateKey: string
  /** A line of authorized_keys. */
  readonly publicKey: string
}

const TYPE = 'ssh-ed25519'
/** PKCS #8 prefix of an Ed25519 key; the seed follows. */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')
const PADDED_TO = 8
const LINE_CHARS = 70

export function deriveClusterKey(secret: string | Buffer, tag: string): ClusterKey {
  const seed = createHmac('sha256', secret).update(`berth-cluster-key/${tag}`).digest()
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' })
  const point = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32)
  const publicBlob = Buffer.concat([text(TYPE), text(point)])
  const check = createHmac('sha256', secret).update(`berth-cluster-check/${tag}`).digest().subarray(0, 4)
  const open = [check, check, text(TYPE), text(point), text(Buffer.concat([seed, point])), text('berth-cluster')]
  const length = open.reduce((sum, one) => sum + one.length, 0)
  const padding = Buffer.from(Array.from({ length: (PADDED_TO - (length % PADDED_TO)) % PADDED_TO }, (_, at) => at + 1))
  const one = Buffer.from([0, 0, 0, 1])
  const sealed = text(Buffer.concat([...open, padding]))
  const container = [
    Buffer.from('openssh-key-v1\0'),
    text('none'),
    text('none'),
    text(''),
    one,
    text(publicBlob),
    sealed,
  ]
  const lines =
    Buffer.concat(container)
      .toString('base64')
      .match(new RegExp(`.{1,${LINE_CHARS}}`, 'g')) ?? []
  return {
    privateKey: ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----'].join('\n'),
    publicKey: `${TYPE} ${publicBlob.toString('base64')} berth-cluster`,
  }
}

/** An SSH string: length, then bytes. */
function text(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}
