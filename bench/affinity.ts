/**
 * Measures whether a conversation returns to the engine that has its prefix cached: two embedded engines with the tiny
 * model and a recorded workload of interleaved conversations, sent once with our routing and once round-robin; the
 * engines report how many prompt tokens they did not have to process again.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { instantOf } from '../src/base/instant.ts'
import { zeroUsd } from '../src/base/money.ts'
import type { Deployment, ServedModel } from '../src/gateway/catalog.ts'
import { hashPrefixes } from '../src/gateway/dialect/chat-call.ts'
import { readChatBody } from '../src/gateway/dialect/chat-body.ts'
import { collect } from '../src/gateway/upstream/collect.ts'
import { makeDispatcher, type RunningDispatcher } from '../src/gateway/dispatch/dispatch.ts'
import { writeTinyGguf } from '../test/sim/tiny-gguf.ts'
import type { Bench } from './harness.ts'

const CONVERSATIONS = 6
const TURNS = 5
const SEQUENCES = 4
const OPENING = 'You are a patient harbour pilot who explains every manoeuvre in plain words. '

interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export const affinity: Bench = {
  name: 'affinity',
  about: `prompt tokens that engines have cached: ${CONVERSATIONS} conversations × ${TURNS} turns on two engines`,
  run: async () => {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-affinity-'))
    try {
      await writeTinyGguf(path.join(folder, 'tiny.gguf'))
      const ours = await measure(folder, 'ours')
      const inTurn = await measure(folder, 'in turn')
      return [
        { name: 'prompt tokens cached, by prefix', value: ours * 100, unit: '%' },
        { name: 'prompt tokens cached, engines in turn', value: inTurn * 100, unit: '%' },
        { name: 'by prefix to in turn', value: ours / inTurn, unit: '×' },
      ]
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
}

async function measure(folder: string, way: 'ours' | 'in turn'): Promise<number> {
  const engines = await Promise.all([0, 1].map((n) => startEngine(folder, `${way.replace(' ', '-')}-${n}`)))
  const dispatcher = makeDispatcher()
  try {
    const all = modelOn(engines.map(({ deployment }) => deployment))
    let prompt = 0
    let cached = 0
    let sent = 0
    for (let turn = 0; turn < TURNS; turn += 1) {
      // The order within a turn varies, because conversations continue as their answers arrive.
      for (let n = 0; n < CONVERSATIONS; n += 1) {
        const conversation = (n * 5 + turn * 3) % CONVERSATIONS
        const one = engines[sent % engines.length]
        const model = way === 'ours' || one === undefined ? all : modelOn([one.deployment])
        const used = await ask(dispatcher, model, messagesOf(conversation, turn))
        prompt += used.prompt
        cached += used.cached
        sent += 1
      }
    }
    return cached / prompt
  } finally {
    await dispatcher.close()
    for (const { child } of engines) child.kill('SIGKILL')
  }
}

/** The conversation so far, with the recorded answers. */
function messagesOf(conversation: number, turn: number): Message[] {
  const messages: Message[] = [{ role: 'system', content: OPENING }]
  for (let n = 0; n <= turn; n += 1) {
    messages.push({
      role: 'user',
      content: `Ship ${conversation}, question ${n}: how do we pass buoy ${n * 7 + conversation}? `,
    })
    if (n < turn)
      messages.push({ role: 'assistant', content: `Ship ${conversation}, slow ahead and keep it to port, ${n}. ` })
  }
  return messages
}

async function ask(
  dispatcher: RunningDispatcher,
  model: ServedModel,
  messages: readonly Message[],
): Promise<{ prompt: number; cached: number }> {
  dispatcher.setCatalog(new Map([[model.name, model]]))
  const body = Buffer.from(JSON.stringify({ model: model.name, messages, max_tokens: 1 }))
  const chat = readChatBody(body)
  if (chat === undefined) throw new Error('the body is not a chat')
  const prefixes = hashPrefixes(chat.messages.bytes, chat.messages.ends)
  const answered = await collect(
    dispatcher,
    {
      model,
      accountId: 'bench',
      request: () => ({
        path: '/v1/chat/completions',
        extraHeaders: '',
        contentType: 'application/json',
        body: [body],
      }),
      prefixes: prefixes.hashes,
      prefixTokens: prefixes.tokens,
      isBatch: false,
      promptTokens: prefixes.tokens.at(-1) ?? 0,
      session: undefined,
    },
    { maxBytes: 1_000_000, signal: new AbortController().signal },
  )
  if (!answered.ok) throw new Error(`an engine did not answer: ${JSON.stringify(answered.failure)}`)
  const { usage } = JSON.parse(answered.value.body.toString()) as {
    usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } }
  }
  return { prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details.cached_tokens }
}

async function startEngine(folder: string, name: string): Promise<{ child: ChildProcess; deployment: Deployment }> {
  const socketPath = path.join(folder, `${name}.sock`)
  const file = path.join(folder, 'tiny.gguf')
  const start = { model: 'tiny', file, socketPath, contextTokens: null, sequences: SEQUENCES, queue: 64, threads: 1 }
  const child = spawn(process.execPath, ['dist/llama-engine.mjs', JSON.stringify(start)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  await new Promise<void>((resolve, reject) => {
    createInterface(child.stdout).on('line', (line) => {
      if (line.includes('"ready"')) resolve()
    })
    child.once('exit', () => reject(new Error('the engine did not start')))
  })
  const deployment: Deployment = {
    id: name,
    protocol: 'embedded',
    address: { kind: 'unix', path: socketPath },
    hostHeader: 'engine',
    basePath: '',
    upstreamModel: 'tiny',
    authorization: undefined,
    weight: 1,
    concurrency: SEQUENCES,
    connectMs: 5_000,
    firstByteMs: 60_000,
    betweenBytesMs: 60_000,
    totalMs: 60_000,
    readsMetrics: false,
    drained: false,
  }
  return { child, deployment }
}

function modelOn(deployments: readonly Deployment[]): ServedModel {
  return {
    name: 'tiny',
    kind: 'chat',
    contextTokens: 2_048,
    maxOutputTokens: null,
    prices: {
      input: zeroUsd,
      cached: zeroUsd,
      output: zeroUsd,
      pixelStep: zeroUsd,
      character: zeroUsd,
      soundMs: zeroUsd,
    },
    supportsTools: false,
    supportsImageInput: false,
    createdAt: instantOf(0),
    deployments,
    notReady: undefined,
  }
}
