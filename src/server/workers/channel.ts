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
  const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>()
  /** Connections that Node holds back until the other side has confirmed those before them. */
  const leaving = new Map<Socket, Handle | undefined>()
  /** The last one sent, which is open here until it is confirmed. */
  let sent: Handle | undefined
  let calls = 0
  const gone = (): Error => new Error('the other process has exited')
  const send = (message: Message, socket?: Socket): void => {
    // A failure shows as the exit of the other process.
    if (!line.connected) return void socket?.destroy()
    const handle = socket === undefined ? undefined : handleOf(socket)
    if (socket !== undefined) leaving.set(socket, handle)
    line.send(message, socket, { keepOpen: false }, () => {
      if (socket !== undefined && leaving.delete(socket)) sent = handle
    })
  }
  const run = (name: string, args: readonly unknown[]): unknown => {
    const found = Object.hasOwn(ours, name) ? ours[name as keyof Ours] : undefined
    if (found === undefined) throw new Error(`there is no function ${name}`)
    return found(...(args as never[]))
  }
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
    else {
      const one = waiting.get(message.answer)
      waiting.delete(message.answer)
      if ('error' in message) one?.reject(new Error(message.error))
      else one?.resolve(message.value as never)
    }
  }
  // There is no connection to close: a note that fails is reported, and the next one is taken.
  line.on(
    'message',
    contained(
      () => {},
      (received, handle) => receive(received as Message, handle),
    ),
  )
  let isOver = false
  const end = (): void => {
    if (isOver) return
    isOver = true
    clearInterval(looking)
    for (const { reject } of waiting.values()) reject(gone())
    waiting.clear()
    // Nobody will get them, and their clients would wait forever.
    for (const [socket, handle] of leaving) {
      socket.destroy()
      handle?.close()
    }
    leaving.clear()
    sent?.close()
    onEnd?.()
  }
  line.on('disconnect', end)
  // Node does not emit it, and leaves the last connection open, if the other process exits before it has confirmed that.
  const looking = setInterval(() => {
    if (!line.connected) end()
  }, LOOK_MS).unref()
  return {
    call: (name, ...args) =>
      new Promise((resolve, reject) => {
        if (!line.connected) return reject(gone())
        calls += 1
        waiting.set(calls, { resolve, reject })
        send({ call: calls, name, args })
      }),
    note: (name, ...args) => send({ name, args }),
    pass: (socket, bytes) => {
      if (socket.destroyed) return
      // A client that resets it now is the receiver's concern.
      socket.on('error', () => {})
      const all = stopReading(socket, bytes)
      const go = (): void => void (socket.destroyed || send({ bytes: all }, socket))
      // What is still being written belongs to this process.
      if (socket.writableLength > 0) socket.write('', go)
      else go()
    },
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
