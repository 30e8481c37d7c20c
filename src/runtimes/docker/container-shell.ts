/** Runs the small scripts of the SFTP server inside a container. */
import type { DockerClient } from './client.ts'
import { endInput, readOutput, startExecution, type Execution } from './execution.ts'
import type { ShellEnd, ShellInput, ShellPort } from './shell-files.ts'

/** A folder of 100,000 files. */
const MAX_OUTPUT_BYTES = 33_554_432
/** Data on its way to a file. Waiting for each piece would cost a change of processes for each. */
const MAX_WAITING_BYTES = 1_048_576

export function containerShell(client: DockerClient, container: string): ShellPort {
  const start = (script: string, args: readonly string[]): Promise<Execution> =>
    startExecution(client, container, { command: ['/bin/sh', '-c', script, 'sh', ...args] })
  return {
    run: async (script, args) => {
      const execution = await start(script, args)
      endInput(execution)
      return finish(execution)
    },
    read: (script, args) => readAll(() => start(script, args)),
    write: async (script, args) => inputOf(await start(script, args)),
  }
}

async function finish(execution: Execution): Promise<ShellEnd> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const { isError, data } of readOutput(execution)) {
    if (isError) continue
    bytes += data.length
    if (bytes > MAX_OUTPUT_BYTES) throw new Error('the output of a script is too long')
    pieces.push(Buffer.from(data))
  }
  return { code: await execution.exitCode(), out: Buffer.concat(pieces) }
}

async function* readAll(start: () => Promise<Execution>): AsyncGenerator<Buffer> {
  const execution = await start()
  let isOver = false
  try {
    endInput(execution)
    for await (const { isError, data } of readOutput(execution)) if (!isError) yield data
    isOver = true
  } finally {
    execution.socket.destroy()
    // If this fails, the container or its daemon is gone, and the program with it.
    if (!isOver) await execution.signal('HUP').catch(() => {})
  }
}

function inputOf(execution: Execution): ShellInput {
  const { socket } = execution
  const ended = finish(execution)
  // It is awaited only at the end.
  ended.catch(() => {})
  return {
    write: async (data) => {
      if (socket.destroyed) return
      // The packet's buffer is used again.
      socket.write(Buffer.from(data))
      if (socket.writableLength < MAX_WAITING_BYTES) return
      await new Promise<void>((resolve) => {
        const go = (): void => {
          socket.off('drain', go)
          socket.off('close', go)
          resolve()
        }
        socket.once('drain', go)
        socket.once('close', go)
      })
    },
    end: async () => {
      endInput(execution)
      return (await ended).code
    },
  }
}
