/**
 * `POST /v1/messages`: Anthropic's protocol as a chat. What changes the answer and no engine can do is refused by name;
 * what only the vendor's service could do is ignored, and the client gets its name.
 */
import { failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { writeMessages, type JsonObject } from './chat-body.ts'
import { chatBytes, promptTokensOf, sessionFrom } from './chat-prompt.ts'
import type { Dialect, EngineBody } from './dialect.ts'
import { chatForm } from './engine-request.ts'
import { messageAnswer } from './message-answer.ts'
import { readMessagePrompt } from './message-prompt.ts'

/** Parameters with an effect here. */
const knownFields = new Set([
  'model',
  'messages',
  'system',
  'max_tokens',
  'metadata',
  'output_config',
  'output_format',
  'stop_sequences',
  'stream',
  'temperature',
  'thinking',
  'tool_choice',
  'tools',
  'top_k',
  'top_p',
])

/** Engines know three levels. */
const efforts: Readonly<Record<string, string>> = {
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

export const message: Dialect = { operation: 'messages', read: (body) => readMessage(body) }

export function readMessage(body: JsonObject): Result<EngineBody> {
  const prompt = readMessagePrompt(body)
  if (!prompt.ok) return prompt
  const tools = readTools(body)
  if ('ok' in tools) return tools
  const format = readFormat(body)
  if (!format.ok) return format
  const thinks = showsThinking(body)
  const stops = (body['stop_sequences'] ?? []) as readonly string[]
  const chat: JsonObject = {
    model: body['model'],
    messages: prompt.value.messages,
    ...present(body, ['max_tokens', 'temperature', 'top_p', 'top_k']),
    ...(body['stream'] === true ? { stream: true } : {}),
    ...(stops.length === 0 ? {} : { stop: stops }),
    ...tools.members,
    ...format.value,
  }
  const messages = writeMessages(chat)
  return ok({
    form: chatForm,
    body: chat,
    messages,
    bytes: chatBytes(chat, messages),
    answer: messageAnswer({ thinks, stops, maxTokens: body['max_tokens'] as number }),
    session: sessionOf(body),
    ignored: [...unknownFields(body), ...prompt.value.ignored, ...tools.ignored],
    hints: { chat_template_kwargs: { enable_thinking: thinks }, ...effortOf(body) },
    promptTokens: promptTokensOf(chat),
  })
}

/** Whether to send thinking. Clients that do not ask for `thinking` do not expect any. */
function showsThinking({ thinking }: JsonObject): boolean {
  const type = (thinking as { type?: string } | null | undefined)?.type
  return type !== undefined && type !== 'disabled'
}

function effortOf({ output_config: config }: JsonObject): JsonObject {
  const effort = efforts[(config as { effort?: string | null } | null | undefined)?.effort ?? '']
  return effort === undefined ? {} : { reasoning_effort: effort }
}

/** The older name of the format is a separate parameter. */
function readFormat({ output_config: config, output_format: older }: JsonObject): Result<JsonObject> {
  const isNew = (config as { format?: unknown } | null | undefined)?.format
  const format = (isNew ?? older) as { type?: unknown; schema?: unknown } | null | undefined
  if (format === undefined || format === null) return ok({})
  if (format.type !== 'json_schema' || typeof format.schema !== 'object') {
    return failField(['output_config', 'format'], 'not_supported', { feature: 'output formats other than json_schema' })
  }
  const schema = { name: 'output', schema: format.schema, strict: true }
  return ok({ response_format: { type: 'json_schema', json_schema: schema } })
}

interface ReadTools {
  readonly members: JsonObject
  readonly ignored: readonly string[]
}

function readTools(body: JsonObject): ReadTools | Failure {
  const tools = (body['tools'] ?? []) as readonly JsonObject[]
  const usable = tools.filter(({ name, input_schema: schema }) => typeof name === 'string' && isObject(schema))
  const ignored = tools.filter((tool) => !usable.includes(tool)).map(({ type, name }) => String(type ?? name))
  if (tools.some(({ cache_control: hint }) => isObject(hint))) ignored.push('cache_control')
  const choice = body['tool_choice'] as JsonObject | null | undefined
  const refused = refuseChoice(choice, usable)
  if (refused !== undefined) return refused
  if (usable.length === 0) return { members: {}, ignored }
  const members = {
    tools: usable.map(({ name, description, input_schema: parameters, strict }) => ({
      type: 'function',
      function: {
        name,
        ...(typeof description === 'string' ? { description } : {}),
        parameters,
        ...(strict === true ? { strict } : {}),
      },
    })),
    ...(choice === undefined || choice === null ? {} : { tool_choice: writeChoice(choice) }),
    ...(choice?.['disable_parallel_tool_use'] === true ? { parallel_tool_calls: false } : {}),
  }
  return { members, ignored }
}

/** A call that the client insists on needs a tool that the model can call. */
function refuseChoice(choice: JsonObject | null | undefined, usable: readonly JsonObject[]): Failure | undefined {
  if (choice?.['type'] === 'any' && usable.length === 0) {
    return failField(['tool_choice'], 'invalid_value', {
      message: 'tool_choice: there is no tool with an input_schema.',
    })
  }
  if (choice?.['type'] !== 'tool' || usable.some(({ name }) => name === choice['name'])) return undefined
  const message = 'tool_choice.name: there is no tool with this name and an input_schema.'
  return failField(['tool_choice', 'name'], 'invalid_value', { message })
}

function writeChoice({ type, name }: JsonObject): unknown {
  if (type === 'any') return 'required'
  return type === 'tool' ? { type: 'function', function: { name } } : type
}

function unknownFields(body: JsonObject): string[] {
  return Object.keys(body).filter((name) => !knownFields.has(name) && body[name] !== null)
}

/** Engines remember the prompts of a user. */
function sessionOf({ metadata }: JsonObject): string | undefined {
  const userId = (metadata as { user_id?: string | null } | null | undefined)?.user_id
  return typeof userId === 'string' ? sessionFrom(userId) : undefined
}

function present(body: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(
    names.map((name) => [name, body[name]] as const).filter(([, value]) => value !== undefined && value !== null),
  )
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}
