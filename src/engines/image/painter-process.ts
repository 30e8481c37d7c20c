/**
 * Both sides of the painter process. A run of the model blocks its thread, and memory of an unloaded model is not returned
 * to the system, so the model has its own process: started on demand and stopped when idle. If the engine dies, the
 * painter exits after its current run.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { z } from 'zod'
import { within } from '../../base/within.ts'
import type { ImageSize } from './image-file.ts'

/** A prompt as vectors of the sentence model. */
export interface EncodedPrompt {
  readonly states: Float32Array
  readonly mask: Float32Array
  /** The part that the model reads. undefined: the whole prompt. */
  readonly readPart: string | undefined
}

export interface Painter {
  encodePrompt(text: string): Promise<EncodedPrompt>
  /** The velocity of the latent for each of the one or two texts, concatenated. */
  velocities(latent: Float32Array, time: number, texts: readonly EncodedPrompt[]): Promise<Float32Array>
  /** The PNG. */
  finish(latent: Float32Array, size: ImageSize): Promise<Uint8Array>
}

const startForm = z.object({ folder: z.string().min(1), threads: z.int().min(1) })
export type PainterStart = z.infer<typeof startForm>

type Ask = {
  [Call in keyof Painter]: { readonly id: number; readonly call: Call; readonly args: Parameters<Painter[Call]> }
}[keyof Painter]
type Answer =
  | { readonly id: number; readonly isDone: true; readonly value: unknown }
  | { readonly id: number; readonly isDone: false; readonly message: string }

/** The first argument of the painter process. */
export const PAINTER_ROLE = 'painter'
const IDLE_MS = 600_000
/** Timeout of one run, including loading: far more than either takes on a busy machine. */
const ANSWER_MS = 300_000

export function readPainterStart(argument: string | undefined): PainterStart {
  return startForm.parse(JSON.parse(argument ?? 'null'))
}

interface Pending {
  readonly resolve: (value: unknown) => void
  readonly reject: (cause: Error) => void
}

/** The engine's side. */
export class PainterProcess implements Painter {
  readonly #entry: string
  readonly #start: PainterStart
  readonly #idleMs: number
  readonly #pending = new Map<number, Pending>()
  #child: ChildProcess | undefined
  #idle: NodeJS.Timeout | undefined
  #lastId = 0

  constructor(entry: string, start: PainterStart, idleMs = IDLE_MS) {
    this.#entry = entry
    this.#start = start
    this.#idleMs = idleMs
  }

  /** undefined: not running, so it uses no memory. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  encodePrompt(...args: Parameters<Painter['encodePrompt']>): Promise<EncodedPrompt> {
    return this.#ask('encodePrompt', args) as Promise<EncodedPrompt>
  }

  velocities(...args: Parameters<Painter['velocities']>): Promise<Float32Array> {
    return this.#ask('velocities', args) as Promise<Float32Array>
  }

  finish(...args: Parameters<Painter['finish']>): Promise<Uint8Array> {
    return this.#ask('finish', args) as Promise<Uint8Array>
  }

  async #ask<Call extends keyof Painter>(call: Call, args: Parameters<Painter[Call]>): Promise<unknown> {
    clearTimeout(this.#idle)
    const child = (this.#child ??= this.#open())
    const id = ++this.#lastId
    const answer = new Promise<unknown>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
      child.send({ id, call, args }, (cause) => cause !== null && this.#end(child, cause))
    })
    try {
      return await within(ANSWER_MS, answer, `the painter process did not answer within ${ANSWER_MS} ms`)
    } catch (cause) {
      // The painter did not answer and may be stuck.
      if (this.#pending.has(id)) this.#end(child, cause as Error)
      throw cause
    } finally {
      clearTimeout(this.#idle)
      if (this.#pending.size === 0) {
        this.#idle = setTimeout(() => this.#end(child, new Error('idle')), this.#idleMs).unref()
      }
    }
  }

  #open(): ChildProcess {
    // The painter's output goes to our stderr, since our stdout carries events.
    const child = fork(this.#entry, [PAINTER_ROLE, JSON.stringify(this.#start)], {
      serialization: 'advanced',
      stdio: ['ignore', 2, 2, 'ipc'],
    })
    child.on('message', (message) => {
      const answer = message as Answer
      const pending = this.#pending.get(answer.id)
      this.#pending.delete(answer.id)
      if (answer.isDone) pending?.resolve(answer.value)
      else pending?.reject(new Error(answer.message))
    })
    child.on('error', (cause) => this.#end(child, cause))
    child.on('exit', (code, signal) => {
      this.#end(child, new Error(`the painter process exited with ${signal ?? code}`))
    })
    return child
  }

  /** The next request starts another process. */
  #end(child: ChildProcess, cause: Error): void {
    if (this.#child !== child) return
    this.#child = undefined
    child.kill('SIGKILL')
    const pending = [...this.#pending.values()]
    this.#pending.clear()
    for (const { reject } of pending) reject(cause)
  }
}

/** The painter's side. Requests wait while it loads; if loading fails, the process exits with the reason. */
export async function runPainter(load: () => Promise<Painter>): Promise<void> {
  const send = process.send?.bind(process)
  if (send === undefined) throw new Error('not started by the image engine')
  process.once('disconnect', () => process.exit())
  const loading = load()
  // If the engine ended during a run, only a failed send shows it.
  const reply = (answer: Answer): boolean => send(answer, undefined, {}, (cause) => cause !== null && process.exit())
  const answer = async (ask: Ask): Promise<void> => {
    const painter = await loading
    try {
      reply({ id: ask.id, isDone: true, value: await run(painter, ask) })
    } catch (cause) {
      process.stderr.write(`${cause instanceof Error ? cause.stack : String(cause)}\n`)
      reply({ id: ask.id, isDone: false, message: cause instanceof Error ? cause.message : String(cause) })
    }
  }
  process.on('message', (ask: Ask) => void answer(ask))
  await loading
}

function run(painter: Painter, ask: Ask): Promise<unknown> {
  switch (ask.call) {
    case 'encodePrompt':
      return painter.encodePrompt(...ask.args)
    case 'velocities':
      return painter.velocities(...ask.args)
    case 'finish':
      return painter.finish(...ask.args)
  }
}
