/**
 * An authenticator with passkeys, as phones and security keys have one: real CBOR, COSE keys and ES256 signatures. Each part of an
 * answer can be falsified.
 */
import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'

const FLAG = { present: 1, verified: 4, backupEligible: 8, backedUp: 16, attested: 64 } as const
const ES256 = -7

export interface Faults {
  readonly origin?: string
  readonly rpId?: string
  readonly challenge?: string
  readonly type?: string
  readonly isVerified?: false
  readonly isPresent?: false
  /** Instead of one more than before. */
  readonly counter?: number
  /** Signs with another key than the one that was registered. */
  readonly isForged?: true
  readonly userHandle?: string
  /** A manufacturer's statement that nobody asked for. */
  readonly attestation?: { readonly fmt: string; readonly attStmt: CborMap }
}

interface Credential {
  readonly id: Buffer
  readonly key: KeyObject
  readonly userHandle: string
  counter: number
}

export class Authenticator {
  readonly credentials: Credential[] = []
  readonly #origin: string
  readonly #isSynced: boolean

  /** A synced passkey always counts 0. */
  constructor(origin: string, { isSynced = false } = {}) {
    this.#origin = origin
    this.#isSynced = isSynced
  }

  create(options: PublicKeyCredentialCreationOptionsJSON, faults: Faults = {}): RegistrationResponseJSON {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const userHandle = options.user.id
    const credential: Credential = { id: randomBytes(32), key: privateKey, userHandle, counter: 0 }
    this.credentials.push(credential)
    const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
    const coseKey = cbor(
      new Map<number, Cbor>([
        [1, 2],
        [3, ES256],
        [-1, 1],
        [-2, Buffer.from(x, 'base64url')],
        [-3, Buffer.from(y, 'base64url')],
      ]),
    )
    const idLength = Buffer.alloc(2)
    idLength.writeUInt16BE(credential.id.length)
    const attested = Buffer.concat([Buffer.alloc(16), idLength, credential.id, coseKey])
    const authData = this.#authData(options.rp.id ?? '', credential, FLAG.attested, faults, attested)
    const { fmt, attStmt } = faults.attestation ?? { fmt: 'none', attStmt: new Map<string, Cbor>() }
    const attestationObject = cbor(
      new Map<string, Cbor>([
        ['fmt', fmt],
        ['attStmt', attStmt],
        ['authData', authData],
      ]),
    )
    const id = credential.id.toString('base64url')
    return {
      id,
      rawId: id,
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON: this.#clientData('webauthn.create', options.challenge, faults).toString('base64url'),
        attestationObject: attestationObject.toString('base64url'),
        transports: ['internal'],
      },
    }
  }

  /** Answers with its newest passkey. */
  get(options: PublicKeyCredentialRequestOptionsJSON, faults: Faults = {}): AuthenticationResponseJSON {
    const credential = this.credentials.at(-1)
    if (credential === undefined) throw new Error('the authenticator has no passkey')
    if (!this.#isSynced) credential.counter += 1
    const clientData = this.#clientData('webauthn.get', options.challenge, faults)
    const authData = this.#authData(options.rpId ?? '', credential, 0, faults)
    const key =
      faults.isForged === true ? generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey : credential.key
    const id = credential.id.toString('base64url')
    return {
      id,
      rawId: id,
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON: clientData.toString('base64url'),
        authenticatorData: authData.toString('base64url'),
        signature: sign('sha256', Buffer.concat([authData, digest(clientData)]), key).toString('base64url'),
        userHandle: faults.userHandle ?? credential.userHandle,
      },
    }
  }

  #clientData(type: string, challenge: string, faults: Faults): Buffer {
    return Buffer.from(
      JSON.stringify({
        type: faults.type ?? type,
        challenge: faults.challenge ?? challenge,
        origin: faults.origin ?? this.#origin,
        crossOrigin: false,
      }),
    )
  }

  #authData(rpId: string, { counter }: Credential, flag: number, faults: Faults, attested = Buffer.alloc(0)): Buffer {
    const flags =
      flag |
      (faults.isPresent === false ? 0 : FLAG.present) |
      (faults.isVerified === false ? 0 : FLAG.verified) |
      (this.#isSynced ? FLAG.backupEligible | FLAG.backedUp : 0)
    const count = Buffer.alloc(4)
    count.writeUInt32BE(faults.counter ?? counter)
    return Buffer.concat([digest(Buffer.from(faults.rpId ?? rpId)), Buffer.from([flags]), count, attested])
  }
}

function digest(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}

type CborMap = ReadonlyMap<string | number, Cbor>
type Cbor = number | string | Buffer | CborMap | readonly Cbor[]

const MAJOR = { unsigned: 0, negative: 1, bytes: 2, text: 3, list: 4, map: 5 } as const

/** RFC 8949, as much of it as attestations need. */
function cbor(value: Cbor): Buffer {
  if (typeof value === 'number') return value < 0 ? head(MAJOR.negative, -1 - value) : head(MAJOR.unsigned, value)
  if (typeof value === 'string') return Buffer.concat([head(MAJOR.text, Buffer.byteLength(value)), Buffer.from(value)])
  if (Buffer.isBuffer(value)) return Buffer.concat([head(MAJOR.bytes, value.length), value])
  if (value instanceof Map)
    return Buffer.concat([
      head(MAJOR.map, value.size),
      ...[...(value as CborMap)].flatMap(([key, one]) => [cbor(key), cbor(one)]),
    ])
  const list = value as readonly Cbor[]
  return Buffer.concat([head(MAJOR.list, list.length), ...list.map(cbor)])
}

function head(major: number, length: number): Buffer {
  if (length < 24) return Buffer.from([(major << 5) | length])
  if (length < 256) return Buffer.from([(major << 5) | 24, length])
  const bytes = Buffer.alloc(3)
  bytes[0] = (major << 5) | 25
  bytes.writeUInt16BE(length, 1)
  return bytes
}
