/** Packets of SFTP, version 3 (draft-ietf-secsh-filexfer-02): what clients of OpenSSH and of editors speak. */

export const requests = {
  init: 1,
  open: 3,
  close: 4,
  read: 5,
  write: 6,
  lstat: 7,
  fstat: 8,
  setstat: 9,
  fsetstat: 10,
  opendir: 11,
  readdir: 12,
  remove: 13,
  mkdir: 14,
  rmdir: 15,
  realpath: 16,
  stat: 17,
  rename: 18,
  readlink: 19,
  symlink: 20,
  extended: 200,
} as const
const replies = { version: 2, status: 101, handle: 102, data: 103, name: 104, attrs: 105 } as const

const statuses = { ok: 0, eof: 1, noSuchFile: 2, denied: 3, failure: 4, badMessage: 5, unsupported: 8 } as const
export type Status = keyof typeof statuses

export const openFlags = { read: 1, write: 2, append: 4, create: 8, truncate: 16, exclusive: 32 } as const
const attrFlags = { size: 1, owner: 2, mode: 4, times: 8, extended: 0x80000000 } as const

const VERSION = 3
/** OpenSSH sends at most 256 KB and a little. */
const MAX_PACKET_BYTES = 300_000
const LENGTH_BYTES = 4

export interface Attrs {
  readonly size?: number | undefined
  readonly uid?: number | undefined
  readonly gid?: number | undefined
  readonly mode?: number | undefined
  readonly atime?: number | undefined
  readonly mtime?: number | undefined
}

export class BadPacket extends Error {}

/** Splits a stream into packets: each without its length. */
export class PacketSplitter {
  #unread: Buffer = Buffer.alloc(0)

  push(chunk: Buffer): Buffer[] {
    this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk])
    const packets: Buffer[] = []
    while (this.#unread.length >= LENGTH_BYTES) {
      const length = this.#unread.readUInt32BE(0)
      if (length < 1 || length > MAX_PACKET_BYTES) throw new BadPacket(`a packet of ${length} bytes`)
      if (this.#unread.length < LENGTH_BYTES + length) break
      packets.push(this.#unread.subarray(LENGTH_BYTES, LENGTH_BYTES + length))
      this.#unread = this.#unread.subarray(LENGTH_BYTES + length)
    }
    return packets
  }
}

/** Reads the fields of one packet, in order. */
export class PacketReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  byte(): number {
    return this.#take(1).readUInt8(0)
  }

  number(): number {
    return this.#take(4).readUInt32BE(0)
  }

  /** An offset beyond 2^53 belongs to no file. */
  offset(): number {
    const value = this.#take(8).readBigUInt64BE(0)
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new BadPacket('an offset too large')
    return Number(value)
  }

  bytes(): Buffer {
    return this.#take(this.number())
  }

  /** Names are bytes; those that are no UTF-8 cannot be passed to a program and are refused. */
  text(): string {
    const bytes = this.bytes()
    const text = bytes.toString()
    if (text.includes('\0') || !Buffer.from(text).equals(bytes)) throw new BadPacket('a name that is no text')
    return text
  }

  attrs(): Attrs {
    const flags = this.number()
    const size = (flags & attrFlags.size) === 0 ? undefined : this.offset()
    const [uid, gid] = (flags & attrFlags.owner) === 0 ? [] : [this.number(), this.number()]
    const mode = (flags & attrFlags.mode) === 0 ? undefined : this.number()
    const [atime, mtime] = (flags & attrFlags.times) === 0 ? [] : [this.number(), this.number()]
    return { size, uid, gid, mode, atime, mtime }
  }

  #take(length: number): Buffer {
    if (length > this.#bytes.length - this.#at) throw new BadPacket('a packet that ends too early')
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }
}

export function versionPacket(extensions: Readonly<Record<string, string>>): Buffer {
  const pairs = Object.entries(extensions).flatMap(([name, value]) => [textField(name), textField(value)])
  return packet(replies.version, numberField(VERSION), ...pairs)
}

export function statusPacket(id: number, status: Status, message: string = status): Buffer {
  return packet(replies.status, numberField(id), numberField(statuses[status]), textField(message), textField('en'))
}

export function handlePacket(id: number, handle: string): Buffer {
  return packet(replies.handle, numberField(id), textField(handle))
}

export function dataPacket(id: number, data: Buffer): Buffer {
  return packet(replies.data, numberField(id), numberField(data.length), data)
}

export function attrsPacket(id: number, attrs: Attrs): Buffer {
  return packet(replies.attrs, numberField(id), attrsField(attrs))
}

export interface NamedFile {
  readonly name: string
  /** One line of `ls -l`. */
  readonly line: string
  readonly attrs: Attrs
}

export function namePacket(id: number, files: readonly NamedFile[]): Buffer {
  const fields = files.flatMap(({ name, line, attrs }) => [textField(name), textField(line), attrsField(attrs)])
  return packet(replies.name, numberField(id), numberField(files.length), ...fields)
}

function packet(type: number, ...fields: readonly Buffer[]): Buffer {
  const body = Buffer.concat(fields)
  return Buffer.concat([numberField(body.length + 1), Buffer.from([type]), body])
}

function numberField(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value >>> 0)
  return bytes
}

function textField(text: string): Buffer {
  const bytes = Buffer.from(text)
  return Buffer.concat([numberField(bytes.length), bytes])
}

function attrsField({ size, uid, gid, mode, atime, mtime }: Attrs): Buffer {
  let flags = 0
  const fields: Buffer[] = []
  if (size !== undefined) {
    flags |= attrFlags.size
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64BE(BigInt(size))
    fields.push(bytes)
  }
  if (uid !== undefined && gid !== undefined) {
    flags |= attrFlags.owner
    fields.push(numberField(uid), numberField(gid))
  }
  if (mode !== undefined) {
    flags |= attrFlags.mode
    fields.push(numberField(mode))
  }
  if (atime !== undefined && mtime !== undefined) {
    flags |= attrFlags.times
    fields.push(numberField(atime), numberField(mtime))
  }
  return Buffer.concat([numberField(flags), ...fields])
}
