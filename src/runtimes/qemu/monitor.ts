/**
 * A QMP connection to one QEMU process: commands, ordered answers and events as JSON lines. Paths of unix sockets are
 * limited to about 100 characters, so the socket is opened through a handle of its folder.
 */
import fs from 'node:fs/promises'
import net from 'node:net'
import { contained } from '../../base/net/contained.ts'
import { within } from '../../base/within.ts'

export interface MonitorEvent {
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

const CONNECT_MS = 20_000
const ANSWER_MS = 20_000
const MAX_LINE_CHARS = 4 * 1_048_576

interface Waiting {
  resolve(value: unknown): void
  reject(error: Error): void
}

export class Monitor {
  readonly #socket: net.Socket
  readonly #waiting: Waiting[] = []
  readonly #listeners = new Set<(event: MonitorEvent) => void>()
  #text = ''
  #greeted: (() => void) | undefined
  readonly closed: Promise<void>

  private constructor(socket: net.Socket) {
    this.#socket = socket
    socket.setEncoding('utf8')
    socket.on(
      'data',
      contained(
        () => this.close(),
        (chunk: string) => this.#read(chunk),
      ),
    )
    // Errors surface as the end of the connection.
    socket.on('error', () => {})
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        for (const one of this.#waiting.splice(0)) one.reject(new Error('QEMU has closed its monitor'))
        resolve()
      })
    })
  }

  static async connect(folder: string, name: string): Promise<Monitor> {
    const handle = await fs.open(folder)
    let monitor: Monitor | undefined
    try {
      const socket = net.connect(`/proc/self/fd/${handle.fd}/${name}`)
      monitor = new Monitor(socket)
      const connected = monitor
      const greeted = new Promise<void>((resolve, reject) => {
        connected.#greeted = resolve
        socket.once('error', reject)
        void connected.closed.then(() => reject(new Error('QEMU has closed its monitor')))
      })
      await within(CONNECT_MS, greeted, `QEMU's monitor sent no greeting within ${CONNECT_MS} ms`)
      await monitor.execute('qmp_capabilities')
      return monitor
    } catch (error) {
      monitor?.close()
      throw error
    } finally {
      await handle.close()
    }
  }

  /** Throws QEMU's error. */
  execute(command: string, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    if (this.#socket.destroyed) return Promise.reject(new Error('QEMU has closed its monitor'))
    const answer = new Promise<unknown>((resolve, reject) => this.#waiting.push({ resolve, reject }))
    this.#socket.write(`${JSON.stringify({ execute: command, arguments: args })}\n`)
    return within(ANSWER_MS, answer, `QEMU has not answered ${command} within ${ANSWER_MS} ms`).catch(
      (error: unknown) => {
        throw new Error(`QEMU: ${error instanceof Error ? error.message : String(error)}`)
      },
    )
  }

  onEvent(listener: (event: MonitorEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(chunk: string): void {
    this.#text += chunk
    if (this.#text.length > MAX_LINE_CHARS) return this.close()
    for (let end = this.#text.indexOf('\n'); end >= 0; end = this.#text.indexOf('\n')) {
      const line = this.#text.slice(0, end)
      this.#text = this.#text.slice(end + 1)
      if (line.trim() === '') continue
      const message = readMessage(line)
      if (message === undefined) return this.close()
      this.#take(message)
    }
  }

  #take(message: Readonly<Record<string, unknown>>): void {
    if ('QMP' in message) return this.#greeted?.()
    if (typeof message.event === 'string') {
      const event = { event: message.event, data: asRecord(message.data) ?? {} }
      for (const listener of this.#listeners) listener(event)
      return
    }
    const waiting = this.#waiting.shift()
    if ('return' in message) waiting?.resolve(message.return)
    else {
      const description = asRecord(message.error)?.desc
      waiting?.reject(new Error(typeof description === 'string' ? description : 'invalid response'))
    }
  }
}

type Fields = Readonly<Record<string, unknown>>

/** A guest may have taken over its QEMU, so no message is trusted. undefined: not a message. */
function readMessage(line: string): Fields | undefined {
  try {
    return asRecord(JSON.parse(line))
  } catch {
    return undefined
  }
}

function asRecord(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined
}
