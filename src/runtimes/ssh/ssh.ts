/**
 * A persistent SSH connection to a host that runs constant scripts. Scripts are never built from input: each value comes
 * as one base64 line on standard input, so that no key, label or path of a customer can become a command.
 */
import { createHash } from 'node:crypto'
import net from 'node:net'
import type ssh2 from 'ssh2'
import { contained } from '../../base/net/contained.ts'
import type { MetalAccess } from './access.ts'
import { sshLibrary } from './ssh-library.ts'

const CONNECT_MS = 10_000
const PROBE_MS = 2_000
const RUN_MS = 60_000
const ALIVE_EVERY_MS = 5_000
const ALIVE_MISSES = 3
const MAX_OUTPUT_BYTES = 1_048_576
const MAX_INPUT_BYTES = 4 * 1_048_576

/** A constant POSIX shell script and the names of its inputs, in order. */
export interface ConstantScript<Name extends string = string> {
  readonly name: string
  readonly reads: readonly Name[]
  readonly text: string
}

export interface ScriptResult {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** The host could not be reached, or the connection was lost: the effect of a script is unknown. */
export class Unreachable extends Error {}

/** A different or reinstalled machine answers at this address. */
class WrongHostKey extends Unreachable {}

export interface SshOptions {
  readonly access: MetalAccess
  /** Called with the first host key, which is pinned from then on. */
  readonly onLearnedHostKey: (fingerprint: string) => void
}

export class SshHost {
  readonly #options: SshOptions
  #pinned: string | undefined
  #client: ssh2.Client | undefined
  #connecting: Promise<ssh2.Client> | undefined

  constructor(options: SshOptions) {
    this.#options = options
    this.#pinned = options.access.hostKey
  }

  /** Resolves with any exit status. Throws `Unreachable` if the connection broke before the script ended. */
  async run<Name extends string>(
    script: ConstantScript<Name>,
    input: Readonly<Record<Name, string>>,
    signal: AbortSignal,
    limitMs = RUN_MS,
  ): Promise<ScriptResult> {
    const lines = script.reads.map((name) => `${Buffer.from(input[name]).toString('base64')}\n`).join('')
    if (lines.length > MAX_INPUT_BYTES) throw new Error(`too much input for ${script.name}`)
    signal.throwIfAborted()
    const client = await this.#connect()
    const timeout = AbortSignal.timeout(limitMs)
    const stop = AbortSignal.any([signal, timeout])
    let onLost = (): void => {}
    let onStop = (): void => {}
    try {
      return await new Promise<ScriptResult>((resolve, reject) => {
        onLost = () => reject(new Unreachable(`the connection to ${this.#place} was lost`))
        onStop = () => {
          this.disconnect()
          reject(timeout.aborted ? new Unreachable(`${script.name} on ${this.#place} took too long`) : stop.reason)
        }
        if (stop.aborted || client !== this.#client) return stop.aborted ? onStop() : onLost()
        client.once('close', onLost)
        stop.addEventListener('abort', onStop)
        try {
          client.exec(commandOf(script, this.#options.access.sudo), (error, channel) => {
            if (error === undefined) collect(channel, lines, resolve, reject)
            else reject(new Unreachable(`${this.#place}: ${error.message}`, { cause: error }))
          })
        } catch (error) {
          // The other end closed the connection, and this end has not noticed yet.
          this.disconnect()
          reject(new Unreachable(`the connection to ${this.#place} was lost`, { cause: error }))
        }
      })
    } finally {
      client.off('close', onLost)
      stop.removeEventListener('abort', onStop)
    }
  }

  /**
   * Whether the port accepts connections. A booting host can leave an SSH handshake unanswered for long, so waits for
   * a reboot probe the port first.
   */
  isPortOpen(): Promise<boolean> {
    const { address: host, port } = this.#options.access
    return new Promise((resolve) => {
      const socket = net.connect({ host, port, timeout: PROBE_MS })
      const settle = (isOpen: boolean): void => {
        socket.destroy()
        resolve(isOpen)
      }
      socket.once('connect', () => settle(true))
      socket.once('timeout', () => settle(false))
      socket.once('error', () => settle(false))
    })
  }

  /** The next run reconnects. */
  disconnect(): void {
    this.#client?.destroy()
    this.#client = undefined
  }

  get #place(): string {
    return `${this.#options.access.address}:${this.#options.access.port}`
  }

  async #connect(): Promise<ssh2.Client> {
    if (this.#client !== undefined) return this.#client
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  #open(): Promise<ssh2.Client> {
    const { access, onLearnedHostKey } = this.#options
    return new Promise((resolve, reject) => {
      const client = new (sshLibrary().Client)()
      let fingerprint = ''
      client.once('ready', () => {
        client.setNoDelay(true)
        this.#client = client
        if (this.#pinned === undefined) {
          this.#pinned = fingerprint
          onLearnedHostKey(fingerprint)
        }
        resolve(client)
      })
      // Keep the listener: an unhandled error event would end the process.
      client.on('error', (error) => reject(this.#unreachable(error, fingerprint)))
      client.once('close', () => {
        if (this.#client === client) this.#client = undefined
        reject(new Unreachable(`${this.#place} closed the connection`))
      })
      client.connect({
        host: access.address,
        port: access.port,
        username: access.user,
        privateKey: access.privateKey,
        readyTimeout: CONNECT_MS,
        keepaliveInterval: ALIVE_EVERY_MS,
        keepaliveCountMax: ALIVE_MISSES,
        hostVerifier: (key: Buffer) => {
          fingerprint = fingerprintOf(key)
          return this.#pinned === undefined || this.#pinned === fingerprint
        },
      })
    })
  }

  #unreachable(error: Error, fingerprint: string): Unreachable {
    if (this.#pinned !== undefined && fingerprint !== '' && fingerprint !== this.#pinned) {
      const message = `${this.#place} presented the host key ${fingerprint} instead of ${this.#pinned}`
      return new WrongHostKey(message, { cause: error })
    }
    return new Unreachable(`${this.#place}: ${error.message}`, { cause: error })
  }
}

/** The fingerprint in the form that `ssh-keygen -l` prints. */
function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`
}

/** The script is an argument, so that standard input is free for values. */
function commandOf(script: ConstantScript, sudo: boolean): string {
  const quoted = `'${script.text.replaceAll("'", `'\\''`)}'`
  return sudo ? `sudo -n -- sh -c ${quoted}` : `exec sh -c ${quoted}`
}

function collect(
  channel: ssh2.ClientChannel,
  input: string,
  resolve: (result: ScriptResult) => void,
  reject: (error: Error) => void,
): void {
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  let bytes = 0
  let exitCode: number | undefined
  const appendTo = (chunks: Buffer[]) => (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= MAX_OUTPUT_BYTES) chunks.push(chunk)
  }
  channel.on('data', contained(reject, appendTo(parts.stdout)))
  channel.stderr.on('data', contained(reject, appendTo(parts.stderr)))
  channel.on('exit', (code: number | null) => {
    exitCode = code ?? 128
  })
  channel.on('error', (error: Error) => reject(new Unreachable(error.message, { cause: error })))
  channel.on('close', () => {
    if (exitCode === undefined) return reject(new Unreachable('the script ended without an exit status'))
    if (bytes > MAX_OUTPUT_BYTES) return reject(new Error('the output of the script is too large'))
    const text = (chunks: Buffer[]): string => Buffer.concat(chunks).toString('utf8')
    resolve({ exitCode, stdout: text(parts.stdout), stderr: text(parts.stderr) })
  })
  channel.end(input)
}
