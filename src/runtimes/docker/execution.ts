/**
 * Runs an extra program inside a container: a shell, a command, an SFTP server. The daemon keeps it running when the
 * client disconnects and has no call to end it, so each has a mark in its environment by which a second small program
 * finds it from inside and signals it. Only the program itself is found, not what it put in the background on purpose:
 * its parent is outside of the container, the parent of a `tmux` or `nohup` is not.
 */
import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { Duplex, finished } from 'node:stream'
import { contained } from '../../base/net/contained.ts'
import { OutputReader, type Output } from '../../base/net/output-frame.ts'
import type { DockerClient } from './client.ts'
import { latestOnly } from './latest.ts'

export interface Execution {
  /** Input and output. Without a terminal, output and errors are framed (`readOutput`). */
  readonly socket: Socket
  readonly tty: boolean
  /** Only the last of many simultaneous calls is made: a customer could send them without end. */
  resize(columns: number, rows: number): Promise<void>
  /** Resolves once the output has ended. */
  exitCode(): Promise<number>
  /** Calls are merged as those of `resize`. */
  signal(name: string): Promise<void>
}

export interface ExecutionOrder {
  readonly command: readonly string[]
  readonly env?: readonly string[]
  /** The user's number, because an image may have no user names. Absent: root. */
  readonly user?: string
  /** Absent: without a terminal. */
  readonly terminal?: { readonly columns: number; readonly rows: number }
}

const MAX_EXIT_TRIES = 40
const EXIT_EVERY_MS = 50
const UNKNOWN_EXIT_CODE = 255
const ROOT = '0:0'
const MARK = 'BERTH_SESSION'
/** Ctrl-D. */
const END_OF_INPUT = '\u0004'

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

/** bash if present. Not a login shell: those reset the PATH that the image has set. */
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
  const id = await client.createExec(container, { command: order.command, tty, env, user: order.user ?? ROOT })
  const socket = await client.startExec(id, tty)
  // Readers see the end; without this listener a broken connection would crash the process.
  socket.on('error', () => socket.destroy())
  const resize = latestOnly(async ({ columns, rows }: { columns: number; rows: number }) => {
    try {
      await client.resizeExec(id, columns, rows)
    } catch {
      // The program has exited, or has no window yet. A wrong window size is no reason to end it.
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

/** Yields the output in order, until the program ends. Stopping early closes the connection. */
export async function* readOutput(execution: Execution): AsyncGenerator<Output> {
  const reader = new OutputReader()
  for await (const chunk of execution.socket as AsyncIterable<Buffer>) {
    if (execution.tty) yield { isError: false, data: chunk }
    else yield* reader.push(chunk)
  }
}

/**
 * The program's input and output as a stream: bytes of its terminal, or frames of its output. `ended` is called with
 * the exit code before the stream ends.
 */
export function executionStream(execution: Execution, ended: (exitCode: number) => void): Duplex {
  const { socket } = execution
  let isOver = false
  const stream = new Duplex({
    read: () => void socket.resume(),
    write: (chunk: Buffer, _, done) => {
      if (socket.write(chunk) || socket.destroyed) done()
      else onceWritable(socket, done)
    },
    final: (done) => {
      endInput(execution)
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
  socket.on(
    'data',
    contained(broken, (chunk: Buffer) => stream.push(chunk) || socket.pause()),
  )
  // Not by its events: a short program may have ended before we could listen.
  finished(socket, { writable: false }, () => {
    if (!stream.destroyed) void over().catch(broken)
  })
  return stream
}

/** On a terminal the end of input is a character; closing the socket would hang up. */
export function endInput({ socket, tty }: Execution): void {
  if (!socket.writable) return
  if (tty) socket.write(END_OF_INPUT)
  else socket.end()
}

/** If this fails, the container or its daemon is gone, and the program with it. */
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

/** The daemon may close the output a moment before it knows the exit code. */
async function exitCodeOf(client: DockerClient, id: string): Promise<number> {
  for (let tries = 1; tries <= MAX_EXIT_TRIES; tries += 1) {
    const { Running, ExitCode } = await client.exec(id)
    if (!Running && ExitCode !== undefined) return ExitCode
    await new Promise((resolve) => setTimeout(resolve, EXIT_EVERY_MS))
  }
  return UNKNOWN_EXIT_CODE
}
