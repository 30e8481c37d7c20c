/**
 * The embedded chat engine: a program of its own, which loads one GGUF file and serves it over a unix socket.
 *
 *   node llama-engine.mjs '{"model":"name","file":"/models/x.gguf","socketPath":"/run/x.sock","contextTokens":null,…}'
 *
 * Its standard output has one JSON object a line, of what becomes of it: `loading`, `ready`, `failed`. Everything else
 * goes to the standard error. It ends when its standard input does, so it never outlives the server that started it.
 */
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { z } from 'zod'
import { systemClock } from '../../base/instant.ts'
import { Engine } from './engine.ts'
import { serveEngine } from './http.ts'
import { loadModel } from './loaded-model.ts'

const startOptions = z.strictObject({
  model: z.string().min(1),
  file: z.string().min(1),
  socketPath: z.string().min(1),
  contextTokens: z.int().min(1).nullable(),
  sequences: z.int().min(1).max(256),
  queue: z.int().min(0).max(100_000),
  threads: z.int().min(1).max(1_024).nullable(),
})

/** Of the load's progress only steps are told. */
const PROGRESS_STEP = 0.01

function tell(event: object): void {
  process.stdout.write(`${JSON.stringify(event)}\n`)
}

function log(line: string): void {
  process.stderr.write(`${line.trim().replaceAll(/\s*\n\s*/g, ' | ')}\n`)
}

/** `process.exit` waits for a batch that is being evaluated, which may take seconds; a signal does not. */
function endAtOnce(leftFiles: readonly string[]): void {
  for (const file of leftFiles) fs.rmSync(file, { force: true })
  process.removeAllListeners('SIGTERM')
  process.kill(process.pid, 'SIGTERM')
}

async function main(): Promise<void> {
  const leftFiles: string[] = []
  process.on('SIGTERM', () => endAtOnce(leftFiles))
  process.stdin.on('end', () => endAtOnce(leftFiles)).on('error', () => endAtOnce(leftFiles))
  process.stdin.resume()
  // The library leaves requests hanging for ever when sampling fails. Whoever started us starts us again.
  process.on('uncaughtException', (error) => {
    log(`fatal: ${error.stack ?? error.message}`)
    process.exit(1)
  })
  // What is written here is for nobody else.
  process.umask(0o077)
  const options = startOptions.parse(JSON.parse(process.argv[2] ?? 'null'))
  let told = 0
  const progress = (share: number): void => {
    if (share < told + PROGRESS_STEP) return
    told = share
    tell({ event: 'loading', progress: Math.round(share * 100) / 100 })
  }
  tell({ event: 'loading', progress: 0 })
  const loaded = await loadModel(options, { progress, log }).catch((error: unknown) => {
    throw new Error(`${path.basename(options.file)} cannot be loaded: ${messageOf(error)}`, { cause: error })
  })
  await removeStaleSocket(options.socketPath)
  await serveEngine(new Engine(options.model, loaded, options.queue), {
    socketPath: options.socketPath,
    log,
    clock: systemClock,
  })
  leftFiles.push(options.socketPath)
  tell({
    event: 'ready',
    contextTokens: loaded.contextTokens,
    concurrency: loaded.sequences.length,
    // By the model's template, or else by a grammar.
    supportsTools: true,
  })
}

/** A socket that nobody answers on was left behind. One that somebody does is not ours to take. */
async function removeStaleSocket(socketPath: string): Promise<void> {
  if (fs.lstatSync(socketPath, { throwIfNoEntry: false })?.isSocket() !== true) return
  const isAnswered = await new Promise<boolean>((resolve) => {
    const probe = net.connect(socketPath, () => {
      probe.destroy()
      resolve(true)
    })
    probe.once('error', () => resolve(false))
  })
  if (isAnswered) throw new Error(`another process answers on ${socketPath}`)
  fs.rmSync(socketPath, { force: true })
}

function messageOf(error: unknown): string {
  if (error instanceof z.ZodError) return z.prettifyError(error)
  return error instanceof Error ? error.message : String(error)
}

main().catch((error: unknown) => {
  tell({ event: 'failed', message: messageOf(error) })
  process.exit(1)
})
