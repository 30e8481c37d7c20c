/**
 * Runs a WASI command whose only file is an output file in memory. Node's own `node:wasi` is experimental and would need
 * a folder on disk; the command uses only the few calls below.
 */
import { wasm, type WasmMemory } from './web-assembly.ts'

export interface CommandOutcome {
  readonly exitCode: number
  /** The content of `OUTPUT_FILE`. */
  readonly file: Buffer
  /** Stdout and stderr, truncated to `MAX_LOG_BYTES`. */
  readonly log: string
}

/** The only path that can be opened, for writing. */
export const OUTPUT_FILE = 'out'

const MAX_FILE_BYTES = 64 * 1_048_576
const MAX_LOG_BYTES = 4_096

const errno = { success: 0, badFile: 8, fileTooBig: 22, invalid: 28, noEntry: 44, notSupported: 52 } as const
const fileType = { character: 2, directory: 3, regular: 4 } as const
const ROOT_FD = 3
const FILE_FD = 4
const ROOT_NAME = Buffer.from('/')
const ALL_RIGHTS = 0xffff_ffff_ffff_ffffn

class CommandExit extends Error {
  readonly exitCode: number
  constructor(exitCode: number) {
    super(`exit ${exitCode}`)
    this.exitCode = exitCode
  }
}

/** Blocks the thread until the command ends. Throws if it traps. */
export function runCommand(module: WebAssembly.Module, args: readonly string[]): CommandOutcome {
  const host = new MemoryHost(args)
  const instance = new wasm.Instance(module, { wasi_snapshot_preview1: host.imports() })
  const { memory, _start: start } = instance.exports
  if (!(memory instanceof wasm.Memory) || typeof start !== 'function') throw new Error('not a WASI command')
  host.memory = memory
  let exitCode = 0
  try {
    Reflect.apply(start, undefined, [])
  } catch (cause) {
    if (!(cause instanceof CommandExit)) throw cause
    exitCode = cause.exitCode
  }
  return { exitCode, file: host.file(), log: host.log }
}

/** A file in memory that grows by doubling. */
class GrowingFile {
  #bytes = Buffer.alloc(65_536)
  #length = 0
  #position = 0

  write(bytes: Uint8Array): boolean {
    const end = this.#position + bytes.length
    if (end > MAX_FILE_BYTES) return false
    if (end > this.#bytes.length) {
      const grown = Buffer.alloc(Math.max(end, this.#bytes.length * 2))
      this.#bytes.copy(grown, 0, 0, this.#length)
      this.#bytes = grown
    }
    this.#bytes.set(bytes, this.#position)
    this.#position = end
    this.#length = Math.max(this.#length, end)
    return true
  }

  /** The new position. undefined: out of range. */
  seek(offset: number, whence: number): number | undefined {
    const from = whence === 0 ? 0 : whence === 1 ? this.#position : this.#length
    const position = from + offset
    if (position < 0 || position > MAX_FILE_BYTES) return undefined
    this.#position = position
    return position
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }
}

class MemoryHost {
  memory: WasmMemory | undefined
  log = ''
  readonly #args: readonly Buffer[]
  readonly #file = new GrowingFile()

  constructor(args: readonly string[]) {
    this.#args = args.map((arg) => Buffer.from(`${arg}\0`))
  }

  file(): Buffer {
    return this.#file.bytes()
  }

  imports(): Record<string, (...numbers: never[]) => number> {
    return {
      args_sizes_get: (count: number, bytes: number) => {
        this.#view().setUint32(count, this.#args.length, true)
        this.#view().setUint32(bytes, Buffer.concat(this.#args).length, true)
        return errno.success
      },
      args_get: (pointers: number, bytes: number) => {
        let at = bytes
        this.#args.forEach((arg, i) => {
          this.#view().setUint32(pointers + 4 * i, at, true)
          this.#bytes(at, arg.length).set(arg)
          at += arg.length
        })
        return errno.success
      },
      // The program uses the time only to seed noise; a constant makes its output repeatable.
      clock_time_get: (_clock: number, _precision: bigint, out: number) => {
        this.#view().setBigUint64(out, 0n, true)
        return errno.success
      },
      fd_close: () => errno.success,
      fd_fdstat_get: (fd: number, out: number) => this.#describe(fd, out),
      fd_fdstat_set_flags: () => errno.notSupported,
      fd_prestat_get: (fd: number, out: number) => {
        if (fd !== ROOT_FD) return errno.badFile
        this.#view().setUint32(out, 0, true)
        this.#view().setUint32(out + 4, ROOT_NAME.length, true)
        return errno.success
      },
      fd_prestat_dir_name: (fd: number, path: number, length: number) => {
        if (fd !== ROOT_FD) return errno.badFile
        if (length < ROOT_NAME.length) return errno.invalid
        this.#bytes(path, ROOT_NAME.length).set(ROOT_NAME)
        return errno.success
      },
      fd_read: (_fd: number, _vectors: number, _count: number, out: number) => {
        this.#view().setUint32(out, 0, true)
        return errno.success
      },
      fd_seek: (fd: number, offset: bigint, whence: number, out: number) => {
        const position = fd === FILE_FD ? this.#file.seek(Number(offset), whence) : undefined
        if (position === undefined) return errno.invalid
        this.#view().setBigUint64(out, BigInt(position), true)
        return errno.success
      },
      fd_write: (fd: number, vectors: number, count: number, out: number) => this.#write(fd, vectors, count, out),
      path_open: (
        _fd: number,
        _lookup: number,
        path: number,
        length: number,
        _open: number,
        _rights: bigint,
        _inherited: bigint,
        _flags: number,
        out: number,
      ) => {
        if (Buffer.from(this.#bytes(path, length)).toString() !== OUTPUT_FILE) return errno.noEntry
        this.#view().setUint32(out, FILE_FD, true)
        return errno.success
      },
      proc_exit: (code: number) => {
        throw new CommandExit(code)
      },
    }
  }

  #describe(fd: number, out: number): number {
    if (fd > FILE_FD) return errno.badFile
    const type = fd === ROOT_FD ? fileType.directory : fd === FILE_FD ? fileType.regular : fileType.character
    const view = this.#view()
    view.setUint32(out, type, true)
    view.setUint32(out + 4, 0, true)
    view.setBigUint64(out + 8, ALL_RIGHTS, true)
    view.setBigUint64(out + 16, ALL_RIGHTS, true)
    return errno.success
  }

  #write(fd: number, vectors: number, count: number, out: number): number {
    let written = 0
    for (let i = 0; i < count; i++) {
      const at = this.#view().getUint32(vectors + 8 * i, true)
      const bytes = this.#bytes(at, this.#view().getUint32(vectors + 8 * i + 4, true))
      if (fd !== FILE_FD) this.log = (this.log + Buffer.from(bytes).toString('latin1')).slice(0, MAX_LOG_BYTES)
      else if (!this.#file.write(bytes)) return errno.fileTooBig
      written += bytes.length
    }
    this.#view().setUint32(out, written, true)
    return errno.success
  }

  // Created on each use: growing the memory detaches earlier views.
  #view(): DataView {
    if (this.memory === undefined) throw new Error('called before the memory exists')
    return new DataView(this.memory.buffer)
  }

  #bytes(at: number, length: number): Uint8Array {
    if (this.memory === undefined) throw new Error('called before the memory exists')
    return new Uint8Array(this.memory.buffer, at, length)
  }
}
