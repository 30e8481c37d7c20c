/** The engine in its own process with the tiny model, called as the gateway calls it. */
import { spawn } from 'node:child_process'
import fs from 'node:fs/promises'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { inject } from 'vitest'
import { z } from 'zod'
import { writeTinyGguf, type TinyGgufOptions } from '../sim/tiny-gguf.ts'
import { removeFolder } from '../harness/leftover.ts'

export interface StartOptions {
  readonly sequences?: number
  readonly queue?: number
  readonly contextTokens?: number
  /** undefined: writes a tiny model. */
  readonly file?: string
  readonly tiny?: TinyGgufOptions
  /** undefined: a new one. */
  readonly folder?: string
}

export interface EngineProcess {
  readonly socketPath: string
  readonly folder: string
  /** Its status lines so far, one object per line. */
  readonly events: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly errors: () => string
  /** The first `ready` or `failed`. */
  readonly settled: Promise<Readonly<Record<string, unknown>>>
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  kill(signal: NodeJS.Signals): void
  closeInput(): void
  stop(): Promise<void>
}

export async function spawnEngine(options: StartOptions = {}): Promise<EngineProcess> {
  const folder = options.folder ?? (await fs.mkdtemp(path.join(os.tmpdir(), 'berth-llama-')))
  const file = options.file ?? path.join(folder, 'tiny.gguf')
  if (options.file === undefined) await writeTinyGguf(file, options.tiny)
  const socketPath = path.join(folder, 'engine.sock')
  const { sequences = 4, queue = 64, contextTokens = null } = options
  const start = { model: 'tiny', file, socketPath, contextTokens, sequences, queue, threads: 1 }
  const entry = path.join(path.dirname(inject('serverBundle')), 'llama-engine.mjs')
  const child = spawn(process.execPath, [entry, JSON.stringify(start)], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const events: Array<Readonly<Record<string, unknown>>> = []
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) =>
    child.once('exit', (code, signal) => resolve({ code, signal })),
  )
  const settled = new Promise<Readonly<Record<string, unknown>>>((resolve, reject) => {
    createInterface(child.stdout).on('line', (line) => {
      const event = JSON.parse(line) as Record<string, unknown>
      events.push(event)
      if (event.event === 'ready' || event.event === 'failed') resolve(event)
    })
    // Not on `exit`: output may still be in the pipe then.
    child.once('close', () => reject(new Error(`the engine ended without a word:\n${errors}`)))
  })
  // A test that stops it early does not await this.
  settled.catch(() => {})
  return {
    socketPath,
    folder,
    events,
    errors: () => errors,
    settled,
    ended,
    kill: (signal) => void child.kill(signal),
    closeInput: () => void child.stdin.end(),
    stop: async () => {
      child.kill('SIGKILL')
      await ended
      await removeFolder(folder)
    },
  }
}

const usage = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: z.object({ cached_tokens: z.int() }),
})
const ratedToken = z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()) })
const chatLogprobs = z.object({ content: z.array(ratedToken.extend({ top_logprobs: z.array(ratedToken) })) })
const textLogprobs = z.object({
  tokens: z.array(z.string()),
  token_logprobs: z.array(z.number()),
  top_logprobs: z.array(z.record(z.string(), z.number())),
  text_offset: z.array(z.int()),
})
const toolCall = z.object({
  id: z.string().regex(/^call_/),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string() }),
})
const finish = z.enum(['stop', 'length', 'tool_calls'])
const chatHead = { id: z.string().regex(/^chatcmpl-[0-9a-f]{32}$/), created: z.int(), model: z.literal('tiny') }
const textHead = { ...chatHead, id: z.string().regex(/^cmpl-[0-9a-f]{32}$/), object: z.literal('text_completion') }

const chatAnswer = z.strictObject({
  ...chatHead,
  object: z.literal('chat.completion'),
  choices: z.array(
    z.strictObject({
      index: z.int(),
      message: z.strictObject({
        role: z.literal('assistant'),
        content: z.string().nullable(),
        tool_calls: z.array(toolCall.strict()).optional(),
      }),
      logprobs: chatLogprobs.nullable(),
      finish_reason: finish,
    }),
  ),
  usage,
})
const chatChunk = z.strictObject({
  ...chatHead,
  object: z.literal('chat.completion.chunk'),
  choices: z.array(
    z.strictObject({
      index: z.int(),
      delta: z.strictObject({
        role: z.literal('assistant').optional(),
        content: z.string().optional(),
        tool_calls: z.array(toolCall.extend({ index: z.int() })).optional(),
      }),
      logprobs: chatLogprobs.optional(),
      finish_reason: finish.nullable(),
    }),
  ),
  usage: usage.optional(),
})
const textChoice = z.strictObject({
  index: z.int(),
  text: z.string(),
  logprobs: textLogprobs.nullable(),
  finish_reason: finish.nullable(),
})
const textAnswer = z.strictObject({ ...textHead, choices: z.array(textChoice), usage })
const textChunk = z.strictObject({ ...textHead, choices: z.array(textChoice), usage: usage.optional() })
const refusal = z.strictObject({
  error: z.strictObject({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
  }),
})

export type ChatAnswer = z.infer<typeof chatAnswer>
export type ChatChunk = z.infer<typeof chatChunk>

type Body = Readonly<Record<string, unknown>>

export interface TinyEngine extends EngineProcess {
  readonly ready: Readonly<Record<string, unknown>>
  /** Messages may be omitted. */
  chat(body: Body): Promise<ChatAnswer>
  chatChunks(body: Body): Promise<ChatChunk[]>
  complete(body: Body): Promise<z.infer<typeof textAnswer>>
  completeChunks(body: Body): Promise<Array<z.infer<typeof textChunk>>>
  refuse(path: string, body: unknown): Promise<Refusal>
  /** A chat in progress: `cut` closes its connection. */
  open(body: Body): { readonly begun: Promise<http.IncomingMessage>; cut(): void }
  metric(name: string): Promise<number>
  get(path: string): Promise<string>
}

export interface Refusal extends z.infer<typeof refusal> {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
}

const CHAT = '/v1/chat/completions'
const COMPLETE = '/v1/completions'

export async function startTinyEngine(options: StartOptions = {}): Promise<TinyEngine> {
  const engine = await spawnEngine(options)
  const ready = await engine.settled
  if (ready.event !== 'ready') throw new Error(`${String(ready.message)}\n${engine.errors()}`)
  const send = (path: string, body: Body): Request => openRequest(engine.socketPath, path, { model: 'tiny', ...body })
  const messages = [{ role: 'user', content: 'Tell me something.' }]
  const read = async (path: string, body: Body): Promise<string> => {
    const response = await send(path, body).begun
    const text = await readText(response)
    if (response.statusCode !== 200) throw new Error(`${response.statusCode}: ${text}\n${engine.errors()}`)
    return text
  }
  const readChunks = async (path: string, body: Body): Promise<unknown[]> =>
    parseEvents(await read(path, { ...body, stream: true }))
  return {
    ...engine,
    ready,
    chat: async (body) => chatAnswer.parse(JSON.parse(await read(CHAT, { messages, ...body }))),
    chatChunks: async (body) => z.array(chatChunk).parse(await readChunks(CHAT, { messages, ...body })),
    complete: async (body) => textAnswer.parse(JSON.parse(await read(COMPLETE, body))),
    completeChunks: async (body) => z.array(textChunk).parse(await readChunks(COMPLETE, body)),
    refuse: async (path, body) => {
      const response = await openRequest(engine.socketPath, path, body).begun
      const { error } = refusal.parse(JSON.parse(await readText(response)))
      return { status: response.statusCode ?? 0, headers: response.headers, error }
    },
    open: (body) => send(CHAT, { messages, ...body }),
    metric: async (name) => {
      const text = await readText(await openRequest(engine.socketPath, '/metrics').begun)
      const [, value] = new RegExp(`^${name} (\\d+)$`, 'm').exec(text) ?? []
      return Number.parseInt(value ?? 'NaN', 10)
    },
    get: async (path) => readText(await openRequest(engine.socketPath, path).begun),
  }
}

interface Request {
  readonly begun: Promise<http.IncomingMessage>
  cut(): void
}

function openRequest(socketPath: string, path: string, body?: unknown): Request {
  const request = http.request({ socketPath, path, method: body === undefined ? 'GET' : 'POST', agent: false })
  const begun = new Promise<http.IncomingMessage>((resolve, reject) => {
    request.once('response', resolve).once('error', reject)
  })
  begun.catch(() => {})
  request.end(typeof body === 'string' ? body : JSON.stringify(body))
  return { begun, cut: () => void request.destroy() }
}

async function readText(response: http.IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of response as AsyncIterable<Buffer>) parts.push(part)
  return Buffer.concat(parts).toString()
}

/** The events before `[DONE]`, which must be the last. */
function parseEvents(text: string): unknown[] {
  const events = text.split('\n\n').filter((event) => event !== '')
  if (events.pop() !== 'data: [DONE]') throw new Error(`the stream has no end:\n${text}`)
  return events.map((event) => JSON.parse(event.slice('data: '.length)) as unknown)
}

/** The text of one choice of a streamed chat. */
export function joinContent(chunks: readonly ChatChunk[], choice = 0): string {
  return chunks
    .flatMap(({ choices }) => choices.filter(({ index }) => index === choice))
    .map(({ delta }) => delta.content ?? '')
    .join('')
}
