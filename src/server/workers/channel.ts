/** Calls and sockets between a server and one of its workers, over the channel that Node opens with a child process. */
import type { ChildProcess } from 'node:child_process'
import { Socket } from 'node:net'
import { contained } from '../../base/net/contained.ts'

/** One side's functions. Those that return a promise answer; the others are notes without an answer. */
type Functions<Side> = { readonly [Name in keyof Side]: (...args: never[]) => unknown }

type Message =
  | { readonly call: number; readonly name: string; readonly args: readonly unknown[] }
  | { readonly name: string; readonly args: readonly unknown[] }
  | { readonly answer: number; readonly value: unknown }
  | { readonly answer: number; readonly error: string }
  | { readonly bytes: Uint8Array }

export type Line = Pick<ChildProcess, 'send' | 'on' | 'connected'>

export interface Channel<Theirs extends Functions<Theirs>> {
  /** Rejects if the other side fails or has gone. */
  call<Name extends keyof Theirs & string>(
    name: Name,
    ...args: Parameters<Theirs[Name]>
  ): Promise<Awaited<ReturnType<Theirs[Name]>>>
  note<Name extends keyof Theirs & string>(name: Name, ...args: Parameters<Theirs[Name]>): void
  /** Hands over a connection with the bytes that were read from it. */
  pass(socket: Socket, bytes: Buffer): void
}

export interface ChannelOptions<Ours> {
  readonly line: Line
  readonly ours: Ours
  readonly onSocket: (socket: Socket, bytes: Buffer) => void
  /** The other process has exited. */
  readonly onEnd?: () => void
}

/** A connection as the event loop knows it. Closing it twice is harmless. */
interface Handle {
  readStop(): number
  close(): void
}

const LOOK_MS = 100

export function openChannel<Theirs extends Functions<Theirs>, Ours extends Functions<Ours>>({
  line,
  ours,
  onSocket,
  onEnd,
}: ChannelOptions<Ours>): Channel<Theirs> {
  const calls = new Calls()
  const leaving = new LeavingSockets()
  const gone = (): Error => new Error('the other process has exited')
  const send = (message: Message, socket?: Socket): void => {
    // A failure shows as the exit of the other process.
    if (!line.connected) return void socket?.destroy()
    if (socket !== undefined) leaving.add(socket)
    line.send(message, socket, { keepOpen: false }, () => {
      if (socket !== undefined) leaving.noteSent(socket)
    })
  }
  const run = (name: string, args: readonly unknown[]): unknown => functionOf(ours, name)(...(args as never[]))
  const answer = async (id: number, name: string, args: readonly unknown[]): Promise<void> => {
    try {
      send({ answer: id, value: await run(name, args) })
    } catch (error) {
      send({ answer: id, error: error instanceof Error ? error.message : String(error) })
    }
  }
  const receive = (message: Message, handle: unknown): void => {
    if ('bytes' in message) {
      if (handle instanceof Socket) onSocket(handle, Buffer.from(message.bytes))
    } else if ('call' in message) void answer(message.call, message.name, message.args)
    else if ('name' in message) run(message.name, message.args)
    else calls.settle(message)
  }
  // There is no connection to close: a note that fails is reported, and the next one is taken.
  line.on(
    'message',
    contained(
      () => {},
      (received, handle) => receive(received as Message, handle),
    ),
  )
  onceDisconnected(line, () => {
    calls.rejectAll(gone())
    leaving.close()
    onEnd?.()
  })
  return {
    call: (name, ...args) =>
      new Promise((resolve, reject) => {
        if (!line.connected) return reject(gone())
        send({ call: calls.add({ resolve, reject }), name, args })
      }),
    note: (name, ...args) => send({ name, args }),
    pass: (socket, bytes) => {
      if (socket.destroyed) return
      // A client that resets it now is the receiver's concern.
      socket.on('error', () => {})
      const all = stopReading(socket, bytes)
      const go = (): void => void (socket.destroyed || send({ bytes: all }, socket))
      // Bytes that are still being written belong to this process.
      if (socket.writableLength > 0) socket.write('', go)
      else go()
    },
  }
}

function functionOf<Side extends Functions<Side>>(side: Side, name: string): Side[keyof Side] {
  if (!Object.hasOwn(side, name)) throw new Error(`there is no function ${name}`)
  return side[name as keyof Side]
}

function onceDisconnected(line: Line, onEnd: () => void): void {
  let isOver = false
  const end = (): void => {
    if (isOver) return
    isOver = true
    clearInterval(timer)
    onEnd()
  }
  line.on('disconnect', end)
  // Node does not emit it, and leaves the last connection open, if the other process exits before it has confirmed that.
  const timer = setInterval(() => {
    if (!line.connected) end()
  }, LOOK_MS).unref()
}

interface Waiting {
  readonly resolve: (value: never) => void
  readonly reject: (error: Error) => void
}

/** Calls that the other side has not answered yet. */
class Calls {
  readonly #waiting = new Map<number, Waiting>()
  #count = 0

  add(caller: Waiting): number {
    this.#count += 1
    this.#waiting.set(this.#count, caller)
    return this.#count
  }

  settle(message: Extract<Message, { answer: number }>): void {
    const caller = this.#waiting.get(message.answer)
    this.#waiting.delete(message.answer)
    if ('error' in message) caller?.reject(new Error(message.error))
    else caller?.resolve(message.value as never)
  }

  rejectAll(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}

/** Connections on their way to the other side. */
class LeavingSockets {
  /** Sockets that Node holds back until the other side has confirmed the ones before them. */
  readonly #leaving = new Map<Socket, Handle | undefined>()
  /** The last one sent, which is open here until it is confirmed. */
  #sent: Handle | undefined

  add(socket: Socket): void {
    this.#leaving.set(socket, handleOf(socket))
  }

  noteSent(socket: Socket): void {
    const handle = this.#leaving.get(socket)
    if (this.#leaving.delete(socket)) this.#sent = handle
  }

  /** Nobody will get them, and their clients would wait forever. */
  close(): void {
    for (const [socket, handle] of this.#leaving) {
      socket.destroy()
      handle?.close()
    }
    this.#leaving.clear()
    this.#sent?.close()
  }
}

/**
 * Stops reading, and returns everything that was read. Node reads on from a socket that it sends to another process and
 * drops those bytes; only the handle itself can be stopped, since a paused stream still fills its buffer.
 */
function stopReading(socket: Socket, bytes: Buffer): Buffer {
  handleOf(socket)?.readStop()
  const all = [bytes]
  for (let piece = socket.read() as Buffer | null; piece !== null; piece = socket.read() as Buffer | null)
    all.push(piece)
  return all.length === 1 ? bytes : Buffer.concat(all)
}

function handleOf(socket: Socket): Handle | undefined {
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null }
  return handle ?? undefined
}
