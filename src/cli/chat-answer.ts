/** One answer of a chat model, written as it comes; and the line about what it has used and cost. */
import { formatUsdForPeople, nanoUsdToNumber, type NanoUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { TransportError } from '../client/error.ts'
import { fetchCost } from '../client/inference.ts'
import { printable } from './screen.ts'
import type { Session } from './session.ts'

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface ChatRequest {
  readonly model: string
  readonly messages: readonly ChatMessage[]
  /** By the names of the interface. */
  readonly sampling: Readonly<Record<string, unknown>>
  readonly sessionId?: string
  readonly signal?: AbortSignal
}

type Usage = Reply<'createChatCompletion'>['usage']

export interface ChatAnswer {
  readonly requestId: string
  readonly model: string
  readonly content: string
  /** null: it was stopped before its end. */
  readonly finishReason: string | null
  readonly usage: Usage | null
}

/** `write` gets what may stand on a terminal. An answer that the signal has stopped is as far as it came. */
export async function askChat(
  { client }: Session,
  { model, messages, sampling, sessionId, signal }: ChatRequest,
  write: (text: string) => void,
): Promise<ChatAnswer> {
  const said = messages.map((message) => ({ ...message }))
  const body = { model, messages: said, ...sampling, stream_options: { include_usage: true } }
  let [requestId, content] = ['', '']
  let [finishReason, usage]: [string | null, Usage | null] = [null, null]
  try {
    const answer = await client.stream('createChatCompletion', { body, sessionId, signal })
    requestId = answer.requestId
    for await (const chunk of answer) {
      const [choice] = chunk.choices
      const text = choice?.delta.content ?? ''
      content += text
      if (text !== '') write(shown(text))
      finishReason = choice?.finish_reason ?? finishReason
      usage = chunk.usage ?? usage
    }
  } catch (error) {
    if (!(error instanceof TransportError && error.kind === 'aborted')) {
      if (content !== '' && !content.endsWith('\n')) write('\n')
      throw error
    }
  }
  if (content !== '' && !content.endsWith('\n')) write('\n')
  return { requestId, model, content, finishReason, usage }
}

/** New lines and tabs stay; everything else that a terminal would obey is shown as what it is. */
function shown(text: string): string {
  return text
    .split(/([\n\t])/)
    .map((part, index) => (index % 2 === 1 ? part : printable(part)))
    .join('')
}

export interface ChatCost {
  readonly costNanoUsd: number | null
  readonly cost: NanoUsd | undefined
}

export async function chatCost(client: Client, { requestId }: ChatAnswer): Promise<ChatCost> {
  const cost = await fetchCost(client, requestId)
  return { cost, costNanoUsd: cost === undefined ? null : nanoUsdToNumber(cost) }
}

/** `21 tokens in (20 cached), 40 out, $0.00000505, req_…`. */
export function costLine({ requestId, finishReason, usage }: ChatAnswer, { cost }: ChatCost): string {
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0
  const parts = [
    ...(usage === null
      ? []
      : [
          `${tokens(usage.prompt_tokens)} in${cached === 0 ? '' : ` (${cached.toLocaleString('en-US')} cached)`}`,
          `${usage.completion_tokens.toLocaleString('en-US')} out`,
        ]),
    cost === undefined ? 'cost not known yet' : formatUsdForPeople(cost),
    ...(requestId === '' ? [] : [requestId]),
  ]
  const end = finishReason === 'length' ? ' (cut at the longest answer: --max-tokens)' : ''
  return `${finishReason === null ? 'Stopped: ' : ''}${parts.join(', ')}${end}`
}

function tokens(n: number): string {
  return `${n.toLocaleString('en-US')} ${n === 1 ? 'token' : 'tokens'}`
}
