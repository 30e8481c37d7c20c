/**
 * A model server that calls tools and follows a schema, in the formats of two real ones: `vllm` puts the answer's id
 * first and starts with the role alone; `llama` puts the choices first, so the ids of the calls precede that of the
 * answer, and sends the first call with the role. It asks for the weather of two places at once and repeats the results
 * it gets. Some words of the last question change that (`moodOf`). It also embeds texts, with vectors as base64 only.
 */
import http from 'node:http'
import type { AddressInfo } from 'node:net'

export type ToolShape = 'vllm' | 'llama'

export interface ToolServer {
  readonly host: string
  readonly port: number
  /** Chat bodies, newest last. */
  readonly bodies: readonly ToolChat[]
  close(): Promise<void>
}

export interface ToolChat {
  readonly model: string
  readonly messages: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly stream?: boolean
  readonly max_tokens?: number
  readonly tools?: readonly unknown[]
  readonly tool_choice?: unknown
  readonly response_format?: { readonly type: string; readonly json_schema?: { readonly schema: unknown } }
}

/** Its tool calls, with arguments as pieces of JSON text, one per event. */
export const toolCalls = [
  { id: 'call_nord', name: 'weather', pieces: ['{"place": ', '"Ærø ', '\\"harbour\\""', '}'] },
  { id: 'call_sued', name: 'weather', pieces: ['{"place"', ': "漢口', ' 🚢"}'] },
] as const
export const toolPlaces = ['Ærø "harbour"', '漢口 🚢']
/** Its output for a schema. */
export const schemaAnswer = { name: 'Sea "Gull"', berths: [3, 4] }
/** The embedding of a text. */
export const vector = [0.5, -1.25, 3]
export const toolUsage = {
  prompt_tokens: 41,
  completion_tokens: 17,
  total_tokens: 58,
  prompt_tokens_details: { cached_tokens: 8 },
}

export async function startToolServer(shape: ToolShape): Promise<ToolServer> {
  const bodies: ToolChat[] = []
  const server = http.createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      if (request.method !== 'POST') return void response.end('{}')
      if (request.url?.endsWith('/embeddings') === true) return void response.end(embeddingsOf())
      const chat = JSON.parse(Buffer.concat(pieces).toString()) as ToolChat
      bodies.push(chat)
      const events = chat.stream === true ? eventsOf(chat, shape) : undefined
      response.setHeader('Content-Type', events === undefined ? 'application/json' : 'text/event-stream')
      response.end(events?.join('') ?? answerOf(chat, shape))
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    bodies,
    close: () => {
      const closed = new Promise<void>((done) => server.close(() => done()))
      server.closeAllConnections()
      return closed
    },
  }
}

/** Always the one format it knows, whatever was requested. */
function embeddingsOf(): string {
  const embedding = Buffer.from(Float32Array.from(vector).buffer).toString('base64')
  return JSON.stringify({ object: 'list', data: [{ object: 'embedding', index: 0, embedding }], model: 'any' })
}

export const thought = 'Two places, two calls.'
/** It says this before its calls if a user asks for everything; then there is a third call, and their parts come by turns. */
export const remark = 'I look it up: Ærø. '
export const thirdCall = { id: 'call_ost', name: 'weather', pieces: ['{"place":', '"Ost"}'] } as const
export const refusal = 'I will not say that.'

interface Mood {
  readonly isThinking: boolean
  readonly saysEverything: boolean
  readonly isRefusing: boolean
}

/** By a word in a question of the user. */
function moodOf({ messages }: ToolChat): Mood {
  const asks = (word: string): boolean =>
    messages.some(({ role, content }) => role === 'user' && String(content).includes(word))
  const saysEverything = asks('Everything')
  return { isThinking: saysEverything || asks('Think'), saysEverything, isRefusing: asks('Refuse') }
}

/** The results of the last calls as text, or undefined if it calls. */
function textOf(chat: ToolChat): string | undefined {
  if (chat.response_format?.type === 'json_schema') return JSON.stringify(schemaAnswer)
  if (moodOf(chat).isRefusing) return ''
  const lastAnswer = chat.messages.findLastIndex(({ role }) => role === 'assistant')
  const reported = chat.messages.slice(lastAnswer + 1).filter(({ role }) => role === 'tool')
  if (reported.length === 0) return undefined
  return reported.map((message) => `${String(message['tool_call_id'])}: ${String(message['content'])}`).join('; ')
}

function answerOf(chat: ToolChat, shape: ToolShape): string {
  const text = textOf(chat)
  const { isThinking, saysEverything, isRefusing } = moodOf(chat)
  const called = [...toolCalls, ...(saysEverything ? [thirdCall] : [])].map(({ id, name, pieces }) => {
    const call = { type: 'function', function: { name, arguments: pieces.join('') } }
    return shape === 'vllm' ? { id, ...call } : { ...call, id }
  })
  const reasoning = isThinking ? { reasoning_content: thought } : {}
  const calls = text === undefined ? { tool_calls: called } : {}
  const content = text ?? (saysEverything ? remark : null)
  const message = { role: 'assistant', content, ...reasoning, ...(isRefusing ? { refusal } : {}), ...calls }
  const choice = { index: 0, message, finish_reason: text === undefined ? 'tool_calls' : 'stop' }
  return write(chat, shape, 'chat.completion', [choice], { usage: toolUsage })
}

function eventsOf(chat: ToolChat, shape: ToolShape): string[] {
  const text = textOf(chat)
  const { isThinking, saysEverything, isRefusing } = moodOf(chat)
  const said = (all: string): object[] =>
    all
      .split(/(?<= )/)
      .filter(Boolean)
      .map((content) => ({ content }))
  const calls = saysEverything ? [...said(remark), ...callsByTurns()] : callDeltas()
  const deltas = [
    ...(isThinking ? [{ reasoning_content: thought }] : []),
    ...(isRefusing ? [{ refusal }] : []),
    ...(text === undefined ? calls : said(text)),
  ]
  const opening = { role: 'assistant', content: text === undefined ? null : '' }
  const opened = shape === 'vllm' ? [opening, ...deltas] : [{ ...opening, ...deltas[0] }, ...deltas.slice(1)]
  const event = (choices: readonly unknown[], more: object = {}): string =>
    `data: ${write(chat, shape, 'chat.completion.chunk', choices, more)}\n\n`
  return [
    ...opened.map((delta) => event([{ index: 0, delta, finish_reason: null }])),
    event([{ index: 0, delta: {}, finish_reason: text === undefined ? 'tool_calls' : 'stop' }]),
    event([], { usage: toolUsage }),
    'data: [DONE]\n\n',
  ]
}

function callDeltas(): object[] {
  return toolCalls.flatMap(({ id, name, pieces }, index) => [
    { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] },
    ...pieces.map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
  ])
}

function callsByTurns(): object[] {
  const calls = [...toolCalls, thirdCall]
  const begin = calls.map(({ id, name }, index) => ({
    tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }],
  }))
  const longest = Math.max(...calls.map(({ pieces }) => pieces.length))
  const parts = Array.from({ length: longest }, (_, at) =>
    calls.flatMap(({ pieces }, index) => {
      const piece = pieces[at]
      return piece === undefined ? [] : [{ tool_calls: [{ index, function: { arguments: piece } }] }]
    }),
  )
  return [...begin, ...parts.flat()]
}

function write(chat: ToolChat, shape: ToolShape, object: string, choices: readonly unknown[], more: object): string {
  const id = 'chatcmpl-of-the-engine'
  const rest = { created: 1_767_225_600, model: chat.model, object }
  return JSON.stringify(shape === 'vllm' ? { id, ...rest, choices, ...more } : { choices, ...rest, id, ...more })
}
