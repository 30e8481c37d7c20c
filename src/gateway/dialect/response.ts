/**
 * `POST /v1/responses`: OpenAI's newer protocol as a chat. What changes the answer and no engine can do is refused by
 * name; what only the vendor's service could do is ignored, and the client gets its name. Stored responses come in through
 * ports: the gateway has no database.
 */
import type { Clock } from '../../base/instant.ts'
import { failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Caller } from '../call.ts'
import { writeMessages, type JsonObject } from './chat-body.ts'
import { chatBytes, promptTokensOf, sessionFrom } from './chat-prompt.ts'
import type { Dialect, EngineBody } from './dialect.ts'
import { chatForm } from './engine-request.ts'
import { responseAnswer, type FinishedResponse } from './response-answer.ts'
import { readItemPrompt, type PlacedItem } from './response-prompt.ts'
import { readResponseTools } from './response-tool.ts'

export interface ResponsePorts {
  readonly clock: Clock
  /** Seals reasoning for its account. */
  readonly sealReasoning: (accountId: string, text: string) => string
  /** undefined: the text was changed, or belongs to another account. */
  readonly openReasoning: (accountId: string, sealed: string) => string | undefined
  /** Fails at once if nothing can be stored. */
  readonly checkStorage: () => Promise<Result<void>>
  /** The items of the conversation up to this response, in order. */
  readonly readConversation: (accountId: string, responseId: string) => Promise<Result<readonly JsonObject[]>>
  /** An item of a stored response. */
  readonly findItem: (accountId: string, itemId: string) => Promise<Result<JsonObject>>
  /** false: the response could not be stored. */
  readonly save: (accountId: string, response: NewResponse) => Promise<boolean>
}

export interface NewResponse extends FinishedResponse {
  readonly previousId: string | null
  readonly input: readonly JsonObject[]
}

/** The request of a caller; a count of tokens has no answer to store. */
export type ResponseCaller = Pick<Caller, 'accountId'> & { readonly storesResponses: boolean }

/** Parameters with an effect here. */
const knownFields = new Set([
  'model',
  'background',
  'conversation',
  'include',
  'input',
  'instructions',
  'max_output_tokens',
  'metadata',
  'parallel_tool_calls',
  'previous_response_id',
  'prompt',
  'prompt_cache_key',
  'reasoning',
  'store',
  'stream',
  'temperature',
  'text',
  'tool_choice',
  'tools',
  'top_logprobs',
  'top_p',
  'truncation',
])

/** Engines know three levels. */
const efforts: Readonly<Record<string, string>> = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

const ENCRYPTED_REASONING = 'reasoning.encrypted_content'
const LOGPROBS = 'message.output_text.logprobs'

export function makeResponseDialect(ports: ResponsePorts): Dialect {
  return {
    operation: 'responses',
    read: (body, { accountId, account }) =>
      readResponse(ports, body, { accountId, storesResponses: account.storesResponses }),
  }
}

export async function readResponse(
  ports: ResponsePorts,
  body: JsonObject,
  caller: ResponseCaller,
): Promise<Result<EngineBody>> {
  const refused = refuseFields(body)
  if (refused !== undefined) return refused
  const tools = readResponseTools(body)
  if ('ok' in tools) return tools
  const format = readFormat(body)
  if (!format.ok) return format
  const stores = caller.storesResponses && body['store'] !== false
  const conversation = await readInput(ports, body, caller, stores)
  if (!conversation.ok) return conversation
  const { input, items } = conversation.value
  const openReasoning = (sealed: string): string | undefined => ports.openReasoning(caller.accountId, sealed)
  const prompt = readItemPrompt({ instructions: body['instructions'], items, openReasoning })
  if (!prompt.ok) return prompt
  if (prompt.value.length === 0) return failField(['input'], 'invalid_value', { message: 'The input has no items.' })
  const chat: JsonObject = {
    model: body['model'],
    messages: prompt.value,
    ...samplingOf(body),
    ...tools.members,
    ...format.value,
  }
  const messages = writeMessages(chat)
  const previousId = (body['previous_response_id'] ?? null) as string | null
  const save = (response: FinishedResponse): Promise<boolean> =>
    ports.save(caller.accountId, { ...response, previousId, input })
  const included = (body['include'] ?? []) as readonly string[]
  return ok({
    form: chatForm,
    body: chat,
    messages,
    bytes: chatBytes(chat, messages),
    answer: responseAnswer({
      echo: echoOf(body),
      tools: tools.names,
      showsLogprobs: included.includes(LOGPROBS),
      clock: ports.clock,
      seal: included.includes(ENCRYPTED_REASONING) ? (text) => ports.sealReasoning(caller.accountId, text) : undefined,
      save: stores ? save : undefined,
    }),
    session: typeof body['prompt_cache_key'] === 'string' ? sessionFrom(body['prompt_cache_key']) : undefined,
    ignored: [...ignoredFields(body, included), ...tools.ignored],
    hints: hintsOf(body),
    promptTokens: promptTokensOf(chat),
  })
}

function refuseFields(body: JsonObject): Failure | undefined {
  const refuse = (name: string, feature: string): Failure => failField([name], 'not_supported', { feature })
  if (body['background'] === true) return refuse('background', 'responses in the background')
  if (isGiven(body['conversation'])) return refuse('conversation', 'conversations; use previous_response_id')
  if (isGiven(body['prompt'])) return refuse('prompt', 'stored prompts')
  if (isGiven(body['truncation']) && body['truncation'] !== 'disabled') {
    return refuse('truncation', 'truncation of the conversation')
  }
  return undefined
}

interface Conversation {
  /** The items of this request. */
  readonly input: readonly JsonObject[]
  /** The whole conversation. */
  readonly items: readonly PlacedItem[]
}

async function readInput(
  ports: ResponsePorts,
  { input: inputValue = [], previous_response_id: previous }: JsonObject,
  { accountId }: ResponseCaller,
  stores: boolean,
): Promise<Result<Conversation>> {
  const history =
    typeof previous === 'string'
      ? await ports.readConversation(accountId, previous)
      : stores
        ? await ports.checkStorage()
        : ok(undefined)
  if (!history.ok) return history
  const items = (
    typeof inputValue === 'string' ? [{ role: 'user', content: inputValue }] : inputValue
  ) as readonly JsonObject[]
  const input: JsonObject[] = []
  for (const item of items) {
    if (item['type'] !== 'item_reference') {
      input.push(item)
      continue
    }
    const referred = await ports.findItem(accountId, item['id'] as string)
    if (!referred.ok) return referred
    input.push(referred.value)
  }
  const before = (history.value ?? []).map((item) => ({ item, path: ['previous_response_id'] }))
  return ok({ input, items: [...before, ...input.map((item, at) => ({ item, path: ['input', at] }))] })
}

function samplingOf(body: JsonObject): JsonObject {
  const { max_output_tokens: limit, temperature, top_p, top_logprobs: top, include, stream } = body
  const wantsLogprobs = (include as readonly string[] | null | undefined)?.includes(LOGPROBS) ?? false
  return {
    ...(isGiven(limit) ? { max_tokens: limit } : {}),
    ...(isGiven(temperature) ? { temperature } : {}),
    ...(isGiven(top_p) ? { top_p } : {}),
    ...(wantsLogprobs ? { logprobs: true, top_logprobs: top ?? 0 } : {}),
    ...(stream === true ? { stream: true } : {}),
  }
}

function readFormat({ text }: JsonObject): Result<JsonObject> {
  const { format } = (text ?? {}) as { readonly format?: JsonObject | null }
  const path = ['text', 'format']
  switch (format?.['type']) {
    case undefined:
    case 'text':
      return ok({})
    case 'json_object':
      return ok({ response_format: { type: 'json_object' } })
    case 'json_schema': {
      const { name, schema, strict, description } = format ?? {}
      if (!isGiven(schema)) return failField([...path, 'schema'], 'invalid_value', { message: 'A schema is missing.' })
      const named = {
        name: name ?? 'output',
        schema,
        ...(isGiven(strict) ? { strict } : {}),
        ...(isGiven(description) ? { description } : {}),
      }
      return ok({ response_format: { type: 'json_schema', json_schema: named } })
    }
    default:
      return failField([...path, 'type'], 'not_supported', { feature: 'this format' })
  }
}

function hintsOf({ reasoning }: JsonObject): JsonObject {
  const effort = (reasoning as { readonly effort?: string | null } | null | undefined)?.effort
  if (!isGiven(effort)) return {}
  const level = efforts[String(effort)]
  return {
    chat_template_kwargs: { enable_thinking: effort !== 'none' },
    ...(level === undefined ? {} : { reasoning_effort: level }),
  }
}

function ignoredFields(body: JsonObject, included: readonly string[]): string[] {
  const { reasoning, text } = body as { readonly reasoning?: JsonObject | null; readonly text?: JsonObject | null }
  const inner = (name: string, object: JsonObject | null | undefined, knownKeys: readonly string[]): string[] =>
    Object.keys(object ?? {})
      .filter((key) => !knownKeys.includes(key) && isGiven(object?.[key]))
      .map((key) => `${name}.${key}`)
  return [
    ...Object.keys(body).filter((name) => !knownFields.has(name) && isGiven(body[name])),
    ...inner('reasoning', reasoning, ['effort']),
    ...inner('text', text, ['format']),
    ...included.filter((name) => name !== ENCRYPTED_REASONING && name !== LOGPROBS),
  ]
}

/** Clients read these members back, and some fail where one is missing. */
function echoOf(body: JsonObject): JsonObject {
  const valueOr = <T>(name: string, usual: T): unknown => body[name] ?? usual
  return {
    background: false,
    instructions: valueOr('instructions', null),
    max_output_tokens: valueOr('max_output_tokens', null),
    max_tool_calls: null,
    metadata: valueOr('metadata', {}),
    parallel_tool_calls: valueOr('parallel_tool_calls', true),
    previous_response_id: valueOr('previous_response_id', null),
    prompt_cache_key: valueOr('prompt_cache_key', null),
    reasoning: { effort: null, summary: null, ...(body['reasoning'] as object | null) },
    service_tier: 'default',
    temperature: valueOr('temperature', null),
    text: { format: { type: 'text' }, ...(body['text'] as object | null) },
    tool_choice: valueOr('tool_choice', 'auto'),
    tools: valueOr('tools', []),
    top_logprobs: valueOr('top_logprobs', 0),
    top_p: valueOr('top_p', null),
    truncation: 'disabled',
    user: valueOr('user', null),
  }
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}
