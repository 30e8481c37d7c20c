/** Runs a command in a rental for a tool: to its end, its time limit, or the end of its client, whichever is first. */
import type { MuxStream } from '../../base/net/mux.ts'
import { contained } from '../../base/net/contained.ts'
import { OutputReader } from '../../base/net/output-frame.ts'
import { z } from 'zod'
import { MAX_MACHINE_BYTES, Tail } from './machine-text.ts'

export interface CommandEnd {
  /** null: it was stopped, or its host went away. */
  readonly exitCode: number | null
  readonly timedOut: boolean
  readonly stdout: string
  readonly stderr: string
  /** The beginning of one of the outputs is missing. */
  readonly truncated: boolean
}

const exit = z.object({ exitCode: z.int().nullable() })
/** Both outputs together fill a result. */
const MAX_OUTPUT_BYTES = MAX_MACHINE_BYTES / 2

export function finishCommand(stream: MuxStream, timeoutMs: number, signal: AbortSignal): Promise<CommandEnd> {
  return new Promise((resolve, reject) => {
    const [out, error] = [new Tail(MAX_OUTPUT_BYTES), new Tail(MAX_OUTPUT_BYTES)]
    const frames = new OutputReader()
    let exitCode: number | null = null
    let timedOut = false
    const stop = (): void => void stream.destroy()
    const timer = setTimeout(() => {
      timedOut = true
      stop()
    }, timeoutMs)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    const close = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
      if (signal.aborted) return reject(new Error('the client has left'))
      const [stdout, stderr] = [out.text(), error.text()]
      resolve({ exitCode, timedOut, stdout, stderr, truncated: out.isCut || error.isCut })
    }
    stream.on(
      'signal',
      contained(stop, (value: unknown) => {
        const read = exit.safeParse(value)
        if (read.success) exitCode = read.data.exitCode
      }),
    )
    stream.on(
      'data',
      contained(stop, (chunk: Buffer) => {
        for (const { isError, data } of frames.push(chunk)) (isError ? error : out).add(Buffer.from(data))
      }),
    )
    // A failure also closes the stream; what it has written until then is the result.
    stream.once('error', (cause: Error) => error.add(Buffer.from(timedOut ? '' : `\n[${cause.message}]`)))
    stream.once('close', close)
    // The command reads nothing.
    stream.end()
  })
}
