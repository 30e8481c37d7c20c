/**
 * An SFTP server for containers whose image has none. Requests are answered one after the other, in their order; data
 * flows through one program for each open file as long as the client reads or writes on from where it was, as clients do.
 */
import {
  BadPacket,
  attrsPacket,
  dataPacket,
  handlePacket,
  namePacket,
  openFlags,
  PacketReader,
  PacketSplitter,
  requests,
  statusPacket,
  versionPacket,
  type NamedFile,
} from './sftp-packet.ts'
import { FileError, type OpenMode, type ShellFiles, type ShellInput } from './shell-files.ts'

const MAX_HANDLES = 64
const MAX_READ_BYTES = 262_144
const NAMES_PER_REPLY = 100
const EXTENSIONS = { 'posix-rename@openssh.com': '1', 'fsync@openssh.com': '1' }

interface OpenFile {
  readonly kind: 'file'
  readonly path: string
  readonly flags: number
  source?: { readonly at: AsyncIterator<Buffer>; position: number; rest: Buffer; isOver: boolean } | undefined
  sink?: { readonly input: ShellInput; position: number } | undefined
}

interface OpenFolder {
  readonly kind: 'folder'
  readonly names: NamedFile[]
}

/** Until the input ends. `send` waits for the client. */
export async function serveSftp(
  input: AsyncIterable<Buffer>,
  send: (packet: Buffer) => Promise<void>,
  files: ShellFiles,
): Promise<void> {
  const session = new SftpSession(files)
  const packets = new PacketSplitter()
  try {
    for await (const chunk of input) {
      for (const packet of packets.push(chunk)) await send(await session.answer(packet))
    }
  } catch (error) {
    // Nothing after it can be understood.
    if (!(error instanceof BadPacket)) throw error
  } finally {
    await session.close()
  }
}

class SftpSession {
  readonly #files: ShellFiles
  readonly #open = new Map<string, OpenFile | OpenFolder>()
  #lastHandle = 0

  constructor(files: ShellFiles) {
    this.#files = files
  }

  async answer(packet: Buffer): Promise<Buffer> {
    const fields = new PacketReader(packet)
    const type = fields.byte()
    if (type === requests.init) return versionPacket(EXTENSIONS)
    const id = fields.number()
    try {
      return await this.#answer(type, id, fields)
    } catch (error) {
      if (error instanceof FileError) return statusPacket(id, error.status, error.message)
      if (error instanceof BadPacket) return statusPacket(id, 'badMessage', error.message)
      throw error
    }
  }

  async close(): Promise<void> {
    for (const handle of this.#open.keys()) await this.#close(handle).catch(() => {})
  }

  #answer(type: number, id: number, fields: PacketReader): Promise<Buffer> {
    switch (type) {
      case requests.open:
        return this.#openFile(id, fields)
      case requests.close:
        return this.#done(id, this.#close(fields.text()))
      case requests.read:
        return this.#read(id, fields)
      case requests.write:
        return this.#write(id, fields)
      case requests.opendir:
        return this.#openFolder(id, fields)
      case requests.readdir:
        return this.#readFolder(id, fields)
      case requests.fstat:
      case requests.fsetstat:
        return this.#ofHandle(type, id, fields)
      default:
        return this.#ofPath(type, id, fields)
    }
  }

  async #ofPath(type: number, id: number, fields: PacketReader): Promise<Buffer> {
    const files = this.#files
    if (type === requests.extended) return this.#extended(id, fields)
    if (type === requests.symlink) {
      // OpenSSH sends the target first, unlike the draft, and other clients do as it does.
      const [target, link] = [fields.text(), await files.resolve(fields.text())]
      return this.#done(id, files.symlink(link, target))
    }
    const isNamed = Object.values(requests).includes(type as never)
    if (!isNamed) return statusPacket(id, 'unsupported')
    const path = await files.resolve(fields.text())
    switch (type) {
      case requests.realpath:
        return namePacket(id, [{ name: path, line: path, attrs: {} }])
      case requests.stat:
        return attrsPacket(id, await files.stat(path, true))
      case requests.lstat:
        return attrsPacket(id, await files.stat(path, false))
      case requests.setstat:
        return this.#done(id, files.change(path, fields.attrs()))
      case requests.remove:
        return this.#done(id, files.remove(path))
      case requests.mkdir:
        return this.#done(id, files.mkdir(path, fields.attrs().mode))
      case requests.rmdir:
        return this.#done(id, files.rmdir(path))
      case requests.rename:
        return this.#done(id, files.rename(path, await files.resolve(fields.text()), false))
      case requests.readlink: {
        const target = await files.readlink(path)
        return namePacket(id, [{ name: target, line: target, attrs: {} }])
      }
      default:
        return statusPacket(id, 'unsupported')
    }
  }

  async #extended(id: number, fields: PacketReader): Promise<Buffer> {
    const name = fields.text()
    if (name === 'posix-rename@openssh.com') {
      const [from, to] = [await this.#files.resolve(fields.text()), await this.#files.resolve(fields.text())]
      return this.#done(id, this.#files.rename(from, to, true))
    }
    if (name !== 'fsync@openssh.com') return statusPacket(id, 'unsupported')
    const file = this.#fileOf(fields.text())
    return this.#done(id, this.#endSink(file))
  }

  async #done(id: number, work: Promise<unknown>): Promise<Buffer> {
    await work
    return statusPacket(id, 'ok')
  }

  async #openFile(id: number, fields: PacketReader): Promise<Buffer> {
    const [path, flags, { mode }] = [await this.#files.resolve(fields.text()), fields.number(), fields.attrs()]
    const writes = (flags & (openFlags.write | openFlags.append)) !== 0
    const how = openModeOf(flags)
    if (writes) await this.#files.openWrite(path, how, mode)
    else await this.#files.openRead(path)
    if (writes && how === 'old' && (flags & openFlags.truncate) !== 0) await this.#files.change(path, { size: 0 })
    return handlePacket(id, this.#addHandle({ kind: 'file', path, flags }))
  }

  async #openFolder(id: number, fields: PacketReader): Promise<Buffer> {
    const path = await this.#files.resolve(fields.text())
    const names = await this.#files.list(path)
    const attrs = await this.#files.stat(path, true)
    const dots = ['.', '..'].map((name) => ({ name, line: name, attrs }))
    return handlePacket(id, this.#addHandle({ kind: 'folder', names: [...dots, ...names] }))
  }

  async #readFolder(id: number, fields: PacketReader): Promise<Buffer> {
    const folder = this.#open.get(fields.text())
    if (folder?.kind !== 'folder') throw new FileError('failure', 'no such handle')
    const names = folder.names.splice(0, NAMES_PER_REPLY)
    return names.length === 0 ? statusPacket(id, 'eof') : namePacket(id, names)
  }

  async #ofHandle(type: number, id: number, fields: PacketReader): Promise<Buffer> {
    const file = this.#fileOf(fields.text())
    await this.#endSink(file)
    if (type === requests.fstat) return attrsPacket(id, await this.#files.stat(file.path, true))
    return this.#done(id, this.#files.change(file.path, fields.attrs()))
  }

  async #read(id: number, fields: PacketReader): Promise<Buffer> {
    const [handle, offset, length] = [fields.text(), fields.offset(), fields.number()]
    const file = this.#fileOf(handle)
    await this.#endSink(file)
    if (file.source?.position !== offset) {
      await file.source?.at.return?.()
      const at = this.#files.readFrom(file.path, offset)[Symbol.asyncIterator]()
      file.source = { at, position: offset, rest: Buffer.alloc(0), isOver: false }
    }
    const { source } = file
    const most = Math.min(length, MAX_READ_BYTES)
    while (source.rest.length < most && !source.isOver) {
      const next = await source.at.next()
      if (next.done === true) source.isOver = true
      else source.rest = source.rest.length === 0 ? next.value : Buffer.concat([source.rest, next.value])
    }
    const data = source.rest.subarray(0, most)
    if (data.length === 0) {
      // A file that grows is read on from here.
      file.source = undefined
      return statusPacket(id, 'eof')
    }
    source.rest = source.rest.subarray(data.length)
    source.position += data.length
    return dataPacket(id, data)
  }

  async #write(id: number, fields: PacketReader): Promise<Buffer> {
    const [handle, sent, data] = [fields.text(), fields.offset(), fields.bytes()]
    const file = this.#fileOf(handle)
    if ((file.flags & (openFlags.write | openFlags.append)) === 0) throw new FileError('denied')
    const isAppend = (file.flags & openFlags.append) !== 0
    const offset = isAppend ? (file.sink?.position ?? (await this.#files.stat(file.path, true)).size ?? 0) : sent
    if (file.sink?.position !== offset) {
      await this.#endSink(file)
      file.sink = { input: await this.#files.writeAt(file.path, offset), position: offset }
    }
    await file.sink.input.write(data)
    file.sink.position += data.length
    return statusPacket(id, 'ok')
  }

  async #close(handle: string): Promise<void> {
    const one = this.#open.get(handle)
    if (one === undefined) throw new FileError('failure', 'no such handle')
    this.#open.delete(handle)
    if (one.kind === 'folder') return
    await one.source?.at.return?.()
    await this.#endSink(one)
  }

  /** Data is in the file only now, and a full disk shows only now. */
  async #endSink(file: OpenFile): Promise<void> {
    const { sink } = file
    file.sink = undefined
    if (sink !== undefined && (await sink.input.end()) !== 0)
      throw new FileError('failure', 'the file could not be written')
  }

  #fileOf(handle: string): OpenFile {
    const file = this.#open.get(handle)
    if (file?.kind !== 'file') throw new FileError('failure', 'no such handle')
    return file
  }

  #addHandle(one: OpenFile | OpenFolder): string {
    if (this.#open.size >= MAX_HANDLES) throw new FileError('failure', 'too many open files')
    this.#lastHandle += 1
    const handle = String(this.#lastHandle)
    this.#open.set(handle, one)
    return handle
  }
}

function openModeOf(flags: number): OpenMode {
  if ((flags & openFlags.create) === 0) return 'old'
  if ((flags & openFlags.exclusive) !== 0) return 'new'
  return (flags & openFlags.truncate) === 0 ? 'keep' : 'empty'
}
