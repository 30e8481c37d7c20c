/**
 * A model server that calls tools and follows a schema, in the formats of two real ones: `vllm` puts the answer's id
 * first and starts with the role alone; `llama` puts the choices first, so the ids of the calls precede that of the
 * answer, and sends the first call with the role. It asks for the weather of two places at once and repeats the results
 * it gets. It also embeds texts, with vectors as base64 only.
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

/** It thinks before it answers if a user says so. */
export const thought = 'Two places, two calls.'

function isThinking({ messages }: ToolChat): boolean {
  return messages.some(({ role, content }) => role === 'user' && String(content).includes('Think'))
}

/** The tool results as text, or undefined while there are none. */
function textOf(chat: ToolChat): string | undefined {
  if (chat.response_format?.type === 'json_schema') return JSON.stringify(schemaAnswer)
  const reported = chat.messages.filter(({ role }) => role === 'tool')
  if (reported.length === 0) return undefined
  return reported.map((message) => `${String(message['tool_call_id'])}: ${String(message['content'])}`).join('; ')
}

function answerOf(chat: ToolChat, shape: ToolShape): string {
  const text = textOf(chat)
  const called = toolCalls.map(({ id, name, pieces }) => {
    const call = { type: 'function', function: { name, arguments: pieces.join('') } }
    return shape === 'vllm' ? { id, ...call } : { ...call, id }
  })
  const reasoning = isThinking(chat) ? { reasoning_content: thought } : {}
  const calls = text === undefined ? { tool_calls: called } : {}
  const message = { role: 'assistant', content: text ?? null, ...reasoning, ...calls }
  const choice = { index: 0, message, finish_reason: text === undefined ? 'tool_calls' : 'stop' }
  return write(chat, shape, 'chat.completion', [choice], { usage: toolUsage })
}

function eventsOf(chat: ToolChat, shape: ToolShape): string[] {
  const text = textOf(chat)
  const parts: object[] = text === undefined ? callDeltas() : text.split(/(?<= )/).map((content) => ({ content }))
  const deltas = isThinking(chat) ? [{ reasoning_content: thought }, ...parts] : parts
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

function write(chat: ToolChat, shape: ToolShape, object: string, choices: readonly unknown[], more: object): string {
  const id = 'chatcmpl-of-the-engine'
  const rest = { created: 1_767_225_600, model: chat.model, object }
  return JSON.stringify(shape === 'vllm' ? { id, ...rest, choices, ...more } : { choices, ...rest, id, ...more })
}
