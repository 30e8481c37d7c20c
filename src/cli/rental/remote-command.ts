/**
 * A command on a machine without a terminal: its input, output and error output as streams, byte for byte. Containers are
 * reached through the server, other machines by the system's own `ssh`.
 */
import { spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { WebSocket } from 'ws'
import { OutputReader } from '../../base/net/output-frame.ts'
import { runSession, type SessionTarget } from './session-socket.ts'
import { exitCodes } from '../kit/shell.ts'
import { notInstalled } from './ssh-command.ts'

/** The server takes messages of up to 64 KB. */
const MAX_MESSAGE_BYTES = 32_768
/** Input waits while more than this has not been sent yet. */
const BACKLOG_BYTES = 1_048_576

/** The streams stay open at the end of the command. */
export interface CommandStreams {
  readonly input: Readable
  readonly output: Writable
  readonly errors: Writable
}

/** Resolves with the exit code. */
export function runOverServer(target: SessionTarget, streams: CommandStreams): Promise<number> {
  const { input, output, errors } = streams
  const reader = new OutputReader()
  const receive = (data: Buffer, socket: WebSocket): void => {
    for (const { isError, data: piece } of reader.push(data)) {
      const sink = isError ? errors : output
      if (sink.write(piece) || socket.isPaused) continue
      socket.pause()
      sink.once('drain', () => socket.resume())
    }
  }
  return untilBroken(streams, (signal) =>
    runSession(target, { tty: 'false' }, { signal, receive, begin: (socket) => sendInput(socket, input) }),
  )
}

/** Ends the command when its input cannot be read or its output not be written, with that error. */
async function untilBroken(
  { input, output }: CommandStreams,
  run: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const control = new AbortController()
  let problem: Error | undefined
  const stop = (error?: Error): void => {
    problem ??= error
    control.abort()
  }
  const closed = (): void => stop()
  input.on('error', stop)
  output.on('error', stop)
  output.once('close', closed)
  try {
    return await run(control.signal)
  } catch (error) {
    throw problem ?? error
  } finally {
    input.off('error', stop)
    output.off('error', stop)
    output.off('close', closed)
  }
}

/** Returns a function that stops reading. */
function sendInput(socket: WebSocket, input: Readable): () => void {
  const send = (chunk: Buffer): void => {
    for (let from = 0; from < chunk.length; from += MAX_MESSAGE_BYTES) {
      socket.send(chunk.subarray(from, from + MAX_MESSAGE_BYTES), () => {
        if (socket.bufferedAmount <= BACKLOG_BYTES) input.resume()
      })
    }
    if (socket.bufferedAmount > BACKLOG_BYTES) input.pause()
  }
  const end = (): void => socket.send('{"end":true}')
  input.on('data', send)
  input.once('end', end)
  return () => {
    input.off('data', send)
    input.off('end', end)
    release(input)
  }
}

/** An open pipe would keep this program alive; a file cannot be unreferenced. */
function release(input: Readable): void {
  input.pause()
  if ('unref' in input && typeof input.unref === 'function') input.unref()
}

/** Resolves with the exit code. */
export function runOverSsh(words: readonly string[], streams: CommandStreams): Promise<number> {
  const [program = '', ...args] = words
  const { input, output, errors } = streams
  return untilBroken(streams, (signal) => {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    signal.addEventListener('abort', () => child.kill(), { once: true })
    // A command may end without having read all of its input.
    child.stdin.on('error', () => release(input))
    input.pipe(child.stdin)
    child.stdout.pipe(output, { end: false })
    child.stderr.pipe(errors, { end: false })
    return new Promise((resolve, reject) => {
      child.once('error', () => reject(notInstalled(program)))
      child.once('close', (code) => {
        input.unpipe(child.stdin)
        release(input)
        if (signal.aborted) reject(new Error('The command was stopped.'))
        else resolve(code ?? exitCodes.failed)
      })
    })
  })
}
