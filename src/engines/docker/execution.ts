/**
 * A program that is run inside a container beside its own: a shell, a command, an SFTP server. The daemon leaves it
 * running when the one who asked for it goes away and has no call to end it, so each carries a mark in its environment,
 * by which a second small program finds it from inside and sends it a signal. Only the program itself is found, not
 * what it has left behind on purpose: its parent is outside of the container, that of a `tmux` or `nohup` is not.
 */
import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { Duplex, finished } from 'node:stream'
import type { DockerClient } from './client.ts'
import { latestOnly } from './latest.ts'

export interface Execution {
  /** Its input and, with a terminal, its output as it is; without one, output and errors in frames (`readOutput`). */
  readonly socket: Socket
  readonly tty: boolean
  /** Of many at once only the last is done: a customer can ask for them without end. */
  resize(columns: number, rows: number): Promise<void>
  /** Once the output has ended. */
  exitCode(): Promise<number>
  /** As with `resize`. */
  signal(name: string): Promise<void>
}

export interface ExecutionOrder {
  readonly command: readonly string[]
  readonly env?: readonly string[]
  /** Absent: without a terminal. */
  readonly terminal?: { readonly columns: number; readonly rows: number }
}

const EXIT_TRIES = 40
const EXIT_EVERY_MS = 50
const UNKNOWN_EXIT_CODE = 255
/** By number, since no image is asked to have names for its users. */
const ROOT = '0:0'
const MARK = 'BERTH_SESSION'

/** $1 is the mark, $2 the signal. Uses nothing but the shell and `cat`. */
const SIGNAL_SCRIPT = `
for folder in /proc/[0-9]*; do
  parent=
  while read -r key value rest; do
    if [ "$key" = PPid: ]; then parent=$value; break; fi
  done 2>/dev/null <"$folder/status"
  [ "$parent" = 0 ] || continue
  case "$(cat "$folder/environ" 2>/dev/null)" in
    *"${MARK}=$1"*) kill -s "$2" -- "-\${folder#/proc/}" 2>/dev/null || kill -s "$2" "\${folder#/proc/}" ;;
  esac
done`

/** bash where there is one. Not a login shell: those set PATH anew, and lose what the image has put there. */
const SHELL_SCRIPT = 'if [ -x /bin/bash ]; then exec /bin/bash "$@"; fi; exec /bin/sh "$@"'

export function shellCommand(...args: readonly string[]): string[] {
  return ['/bin/sh', '-c', SHELL_SCRIPT, 'sh', ...args]
}

export async function startExecution(
  client: DockerClient,
  container: string,
  order: ExecutionOrder,
): Promise<Execution> {
  const mark = randomBytes(12).toString('hex')
  const tty = order.terminal !== undefined
  const env = [...(order.env ?? []), `${MARK}=${mark}`]
  const id = await client.createExec(container, { command: order.command, tty, env, user: ROOT })
  const socket = await client.startExec(id, tty)
  // Whoever reads sees it end; without a listener here a broken connection would end the process.
  socket.on('error', () => socket.destroy())
  const resize = latestOnly(async ({ columns, rows }: { columns: number; rows: number }) => {
    try {
      await client.resizeExec(id, columns, rows)
    } catch {
      // It has ended meanwhile, or has no window yet. A window of the wrong size is no reason to end it.
    }
  })
  const execution: Execution = {
    socket,
    tty,
    resize: (columns, rows) => resize({ columns, rows }),
    exitCode: () => exitCodeOf(client, id),
    signal: latestOnly(async (name) => {
      if (!(await client.exec(id)).Running) return
      const command = ['/bin/sh', '-c', SIGNAL_SCRIPT, 'sh', mark, name]
      const second = await client.createExec(container, { command, tty: false, env: [], user: ROOT })
      await client.act('POST', `/exec/${second}/start`, { body: { Detach: true, Tty: false } })
    }),
  }
  if (order.terminal !== undefined) await execution.resize(order.terminal.columns, order.terminal.rows)
  return execution
}

const FRAME_HEAD_BYTES = 8
const ERROR_STREAM = 2

/** What it writes, in order, until it ends. Stopping early ends the connection. */
export async function* readOutput(execution: Execution): AsyncGenerator<{ isError: boolean; data: Buffer }> {
  let head: Buffer = Buffer.alloc(0)
  let left = 0
  let isError = false
  for await (const chunk of execution.socket as AsyncIterable<Buffer>) {
    if (execution.tty) {
      yield { isError: false, data: chunk }
      continue
    }
    let rest = head.length === 0 ? chunk : Buffer.concat([head, chunk])
    head = Buffer.alloc(0)
    while (rest.length > 0) {
      if (left === 0) {
        if (rest.length < FRAME_HEAD_BYTES) {
          head = rest
          break
        }
        isError = rest[0] === ERROR_STREAM
        left = rest.readUInt32BE(4)
        rest = rest.subarray(FRAME_HEAD_BYTES)
        continue
      }
      const data = rest.subarray(0, left)
      left -= data.length
      rest = rest.subarray(data.length)
      yield { isError, data }
    }
  }
}

/** Its terminal as a stream. `ended` is called with the exit code before the stream ends. */
export function terminalStream(execution: Execution, ended: (exitCode: number) => void): Duplex {
  const { socket } = execution
  let isOver = false
  const stream = new Duplex({
    read: () => void socket.resume(),
    write: (chunk: Buffer, _, done) => {
      if (socket.write(chunk) || socket.destroyed) done()
      else onceWritable(socket, done)
    },
    // Ctrl-D, as a terminal says that there is no more.
    final: (done) => {
      if (socket.writable) socket.write('\u0004')
      done()
    },
    destroy: (error, done) => {
      socket.destroy()
      if (!isOver) hangUp(execution)
      done(error)
    },
  })
  const over = async (): Promise<void> => {
    if (isOver) return
    isOver = true
    ended(await execution.exitCode().catch(() => UNKNOWN_EXIT_CODE))
    stream.push(null)
  }
  const broken = (error: unknown): void =>
    void stream.destroy(error instanceof Error ? error : new Error(String(error)))
  socket.on('data', (chunk: Buffer) => {
    if (!stream.push(chunk)) socket.pause()
  })
  // Not by its events: a short program may have ended before anyone could listen, and they do not come twice.
  finished(socket, { writable: false }, () => {
    if (!stream.destroyed) void over().catch(broken)
  })
  return stream
}

/** Where that fails the container or its daemon is gone, and the program with it. */
function hangUp(execution: Execution): void {
  void execution.signal('HUP').catch(() => {})
}

function onceWritable(socket: Socket, done: () => void): void {
  const go = (): void => {
    socket.off('drain', go)
    socket.off('close', go)
    done()
  }
  socket.once('drain', go)
  socket.once('close', go)
}

/** The daemon may close the output a moment before it knows how it ended. */
async function exitCodeOf(client: DockerClient, id: string): Promise<number> {
  for (let tries = 1; tries <= EXIT_TRIES; tries += 1) {
    const { Running, ExitCode } = await client.exec(id)
    if (!Running && ExitCode !== undefined) return ExitCode
    await new Promise((resolve) => setTimeout(resolve, EXIT_EVERY_MS))
  }
  return UNKNOWN_EXIT_CODE
}
