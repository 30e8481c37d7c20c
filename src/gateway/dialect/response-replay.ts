/** The events of a stored response again, as they were sent when it was created. */
import type { JsonObject } from './chat-body.ts'
import type { FinishedResponse } from './response-answer.ts'
import { ResponseEvents, writeEvent, type OutputItem, type Piece } from './response-events.ts'
import { customArguments, type ToolName } from './response-tool.ts'
import type { AnswerPart } from './part-sequence.ts'

interface StoredPart {
  readonly part: AnswerPart
  readonly text: string
  readonly logprobs: readonly unknown[]
  /** The item is sent in one piece, however it arrived. */
  readonly isWhole?: true
}

/** Returns one text for each event. */
export function replayResponse({ id, text, pieces }: FinishedResponse): string[] {
  const response = JSON.parse(text) as JsonObject & { readonly output: readonly OutputItem[]; readonly status: string }
  const { output, status } = response
  const begun = {
    ...response,
    status: 'in_progress',
    output: [],
    usage: null,
    completed_at: null,
    incomplete_details: null,
  }
  const sealed = new Map(output.map((item, at) => [at, item.type === 'reasoning' ? item.encrypted_content : undefined]))
  const tools = new Map<string, ToolName>(output.flatMap((item, at) => toolOf(item, at)))
  const events = new ResponseEvents({
    seed: id.slice('resp_'.length),
    tools,
    showsLogprobs: true,
    seal: [...sealed.values()].some((one) => one !== undefined) ? (_text, at) => sealed.get(at) ?? '' : undefined,
  })
  const opening = `"response":${JSON.stringify(begun)}`
  let all = events.event('response.created', opening) + events.event('response.in_progress', opening)
  for (const [number, { part, text: whole, logprobs, isWhole }] of output.flatMap(partsOf).entries()) {
    all += events.take({ step: 'begin', part })
    let [at, logprobAt] = [0, 0]
    for (const piece of (isWhole ? undefined : pieces[number]) ?? [whole.length]) {
      const [length, count] = lengthsOf(piece)
      const step = { text: whole.slice(at, at + length), logprobs: logprobs.slice(logprobAt, logprobAt + count) }
      all += events.take({ step: 'add', ...step })
      at += length
      logprobAt += count
    }
    all += events.take({ step: 'end' })
  }
  all += events.close(status === 'completed' ? 'completed' : 'incomplete')
  all += writeEvent(`response.${status}`, events.next(), `"response":${text}`)
  return all.split(/(?<=\n\n)/)
}

function lengthsOf(piece: Piece): readonly [length: number, logprobs: number] {
  return typeof piece === 'number' ? [piece, 0] : piece
}

function toolOf(item: OutputItem, at: number): Array<[string, ToolName]> {
  if (item.type !== 'function_call' && item.type !== 'custom_tool_call') return []
  const kind = item.type === 'custom_tool_call' ? 'custom' : 'function'
  return [[String(at), { kind, name: item.name, namespace: item.namespace }]]
}

function partsOf(item: OutputItem, at: number): StoredPart[] {
  switch (item.type) {
    case 'function_call':
    case 'custom_tool_call': {
      const part = { kind: 'call', id: item.call_id, name: String(at) } as const
      if (item.type === 'function_call') return [{ part, text: item.arguments, logprobs: [] }]
      return [{ part, text: customArguments(item.input), logprobs: [], isWhole: true }]
    }
    case 'reasoning':
    case 'message':
      return item.content.map((part) => {
        if (part.type === 'refusal') return { part: { kind: 'refusal' }, text: part.refusal, logprobs: [] }
        const kind = part.type === 'output_text' ? 'text' : 'reasoning'
        return { part: { kind }, text: part.text, logprobs: part.type === 'output_text' ? part.logprobs : [] }
      })
  }
}
