/** One answer of a chat model, printed as it arrives, and a line with its usage and cost. */
import { count, number } from '../../view/number.ts'
import { formatUsdForPeople, nanoUsdToNumber, type NanoUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import { TransportError } from '../../client/error.ts'
import { fetchCost } from '../../client/request-cost.ts'
import { printable } from '../kit/screen.ts'
import type { Session } from '../rental/session.ts'

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface ChatRequest {
  readonly model: string
  readonly messages: readonly ChatMessage[]
  /** The sampling parameters, by their names in the API. */
  readonly sampling: Readonly<Record<string, unknown>>
  readonly sessionId?: string
  readonly signal?: AbortSignal
}

type Usage = Reply<'createChatCompletion'>['usage']

export interface ChatAnswer {
  readonly requestId: string
  readonly model: string
  readonly content: string
  /** null: the answer was stopped. */
  readonly finishReason: string | null
  readonly usage: Usage | null
}

/** `write` gets printable text. An answer stopped by the signal is returned as far as it came. */
export async function askChat(
  { client }: Session,
  { model, messages, sampling, sessionId, signal }: ChatRequest,
  write: (text: string) => void,
): Promise<ChatAnswer> {
  const sent = messages.map((message) => ({ ...message }))
  const body = { model, messages: sent, ...sampling, stream_options: { include_usage: true } }
  let [requestId, content] = ['', '']
  let [finishReason, usage]: [string | null, Usage | null] = [null, null]
  try {
    const answer = await client.stream('createChatCompletion', { body, sessionId, signal })
    requestId = answer.requestId
    for await (const chunk of answer) {
      const [choice] = chunk.choices
      const text = choice?.delta.content ?? ''
      content += text
      if (text !== '') write(escape(text))
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

/** New lines and tabs stay; other control characters are escaped. */
function escape(text: string): string {
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

/** `21 tokens in (20 cached), 40 out, $0.0001, req_…`. */
export function costLine({ requestId, finishReason, usage }: ChatAnswer, { cost }: ChatCost): string {
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0
  const parts = [
    ...(usage === null
      ? []
      : [
          `${count(usage.prompt_tokens, 'token')} in${cached === 0 ? '' : ` (${number(cached)} cached)`}`,
          `${number(usage.completion_tokens)} out`,
        ]),
    cost === undefined ? 'cost not known yet' : formatUsdForPeople(cost),
    ...(requestId === '' ? [] : [requestId]),
  ]
  const end = finishReason === 'length' ? ' (stopped at --max-tokens)' : ''
  return `${finishReason === null ? 'Stopped: ' : ''}${parts.join(', ')}${end}`
}
