/**
 * Parses the body of a request. Unknown keys are ignored, as usual for this API; a known key that would change the
 * answer and that this engine does not support is rejected by name.
 */
import { z } from 'zod'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { issueText } from '../../contract/issue-text.ts'
import type { ChatMessage } from './chat-prompt.ts'
import type { Sampling } from './sampling.ts'
import type { Tool } from './tool-call.ts'

export interface GenerationRequest {
  readonly kind: 'chat' | 'completion'
  /** Empty for a completion. */
  readonly messages: readonly ChatMessage[]
  /** Empty for a chat. A list of numbers is a prompt in tokens of the model. */
  readonly prompts: ReadonlyArray<string | readonly number[]>
  /** Answers per prompt. */
  readonly choices: number
  readonly stream: boolean
  readonly usage: 'none' | 'last' | 'always'
  /** undefined: the rest of the context. */
  readonly maxTokens: number | undefined
  readonly sampling: Sampling
  readonly stops: readonly string[]
  /** Alternatives per token. undefined: no log-probabilities are requested. */
  readonly alternatives: number | undefined
  readonly format: AnswerFormat
  readonly tools: readonly Tool[]
  readonly toolChoice: ToolChoice
  readonly templateVariables: Readonly<Record<string, unknown>>
}

export type AnswerFormat =
  | { readonly kind: 'text' }
  | { readonly kind: 'json_object' }
  | { readonly kind: 'json_schema'; readonly schema: unknown }

export type ToolChoice =
  | { readonly kind: 'none' | 'auto' | 'required' }
  | { readonly kind: 'named'; readonly name: string }

const MAX_CHOICES = 1_024
const MAX_PROMPTS = 1_024
const MAX_STOPS = 1_024
const MAX_STOP_CHARS = 10_000
const MAX_BIASES = 1_024
const MAX_ALTERNATIVES = 20
const MAX_TOOLS = 128

/** Unsupported keys, with the values that change nothing and are therefore accepted. */
const unsupportedExcept: Readonly<Record<string, readonly unknown[]>> = {
  suffix: [''],
  echo: [false],
  best_of: [1],
  functions: [],
  function_call: ['none'],
  audio: [],
  prediction: [],
  web_search_options: [],
  chat_template: [],
  add_generation_prompt: [true],
  continue_final_message: [false],
  ignore_eos: [false],
  min_tokens: [0],
  stop_token_ids: [],
  bad_words: [],
  prompt_logprobs: [],
  use_beam_search: [false],
  guided_json: [],
  guided_regex: [],
  guided_choice: [],
  guided_grammar: [],
  structured_outputs: [],
  grammar: [],
  json_schema: [],
}

const toolCall = z.looseObject({ function: z.looseObject({ name: z.string(), arguments: z.string() }) })
const contentPart = z.looseObject({ type: z.string(), text: z.string().optional() })
const message = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
  content: z
    .union([z.string(), z.array(contentPart)])
    .nullish()
    .superRefine((content, context) => {
      const strange = Array.isArray(content) ? content.find(({ type }) => type !== 'text') : undefined
      if (strange !== undefined)
        context.addIssue({ code: 'custom', message: `parts of type ${strange.type} are not supported, only text` })
    })
    .transform((content) =>
      Array.isArray(content) ? content.map(({ text }) => text ?? '').join('\n') : (content ?? ''),
    ),
  tool_calls: z.array(toolCall).nullish(),
})

const tool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({ name: z.string().regex(/^[\w.-]{1,64}$/), parameters: z.unknown().optional() }),
})

const sharedBody = z.object({
  model: z.string(),
  stream: z.boolean().default(false),
  stream_options: z
    .looseObject({ include_usage: z.boolean().default(false), continuous_usage_stats: z.boolean().default(false) })
    .optional(),
  n: z.int().min(1).max(MAX_CHOICES).default(1),
  max_tokens: z.int().min(1).optional(),
  // Small, strongly quantized models write gibberish if every token of the vocabulary can be chosen.
  temperature: z.number().min(0).max(2).default(0.7),
  top_p: z.number().min(0).max(1).default(0.95),
  top_k: z.int().min(-1).default(40),
  min_p: z.number().min(0).max(1).default(0.05),
  // Clients send 64-bit seeds, which exceed the safe integers.
  seed: z.number().refine(Number.isInteger, 'must be a whole number').optional(),
  frequency_penalty: z.number().min(-2).max(2).default(0),
  presence_penalty: z.number().min(-2).max(2).default(0),
  repetition_penalty: z.number().gt(0).max(10).default(1),
  logit_bias: z
    .record(z.string().regex(/^\d+$/), z.number().min(-100).max(100))
    .refine((biases) => Object.keys(biases).length <= MAX_BIASES, `must have at most ${MAX_BIASES} tokens`)
    .default({}),
  stop: z
    .union([z.string(), z.array(z.string()).max(MAX_STOPS)])
    .transform((stop) => (typeof stop === 'string' ? [stop] : stop))
    .pipe(z.array(z.string().min(1).max(MAX_STOP_CHARS)))
    .default([]),
  response_format: z
    .discriminatedUnion('type', [
      z.looseObject({ type: z.literal('text') }),
      z.looseObject({ type: z.literal('json_object') }),
      z.looseObject({ type: z.literal('json_schema'), json_schema: z.looseObject({ schema: z.unknown().optional() }) }),
    ])
    .default({ type: 'text' }),
})

const chatBody = sharedBody.extend({
  messages: z.array(message).min(1),
  max_completion_tokens: z.int().min(1).optional(),
  logprobs: z.union([z.boolean(), z.int().min(0).max(MAX_ALTERNATIVES)]).optional(),
  top_logprobs: z.int().min(0).max(MAX_ALTERNATIVES).optional(),
  tools: z.array(tool).max(MAX_TOOLS).default([]),
  tool_choice: z
    .union([
      z.enum(['none', 'auto', 'required']),
      z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string() }) }),
    ])
    .default('auto'),
  modalities: z.array(z.literal('text')).optional(),
  chat_template_kwargs: z.record(z.string(), z.unknown()).default({}),
})

const tokens = z.array(z.int().min(0)).min(1)

function listPrompts(prompt: string | string[] | number[] | number[][]): Array<string | number[]> {
  if (typeof prompt === 'string') return [prompt]
  return typeof prompt[0] === 'number' ? [prompt as number[]] : (prompt as Array<string | number[]>)
}

const completionBody = sharedBody.extend({
  prompt: z
    .union([z.string(), z.array(z.string()).min(1).max(MAX_PROMPTS), tokens, z.array(tokens).min(1).max(MAX_PROMPTS)])
    .transform(listPrompts),
  logprobs: z.int().min(0).max(MAX_ALTERNATIVES).optional(),
})

export function readRequest(
  kind: 'chat' | 'completion',
  body: unknown,
  facts: { readonly model: string; readonly vocabularySize: number },
): Result<GenerationRequest> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return fail('invalid_body')
  // null is the same as an absent key.
  const fields = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
  for (const [name, allowed] of Object.entries(unsupportedExcept)) {
    if (Object.hasOwn(fields, name) && !allowed.includes(fields[name])) return refuseKey(name)
  }
  const read = kind === 'chat' ? readChat(fields) : readCompletion(fields)
  if (!read.ok) return read
  if (fields.model !== facts.model) return fail('model_not_found', { model: String(fields.model), field: ['model'] })
  const isUnknown = (token: number): boolean => token >= facts.vocabularySize
  const biased = [...read.value.sampling.logitBias.keys()].find(isUnknown)
  if (biased !== undefined)
    return failField(['logit_bias'], 'invalid_value', {
      message: `logit_bias: ${biased} is not a token of this model.`,
    })
  const prompted = read.value.prompts.flatMap((prompt) => (typeof prompt === 'string' ? [] : prompt)).find(isUnknown)
  return prompted === undefined
    ? read
    : failField(['prompt'], 'invalid_value', { message: `prompt: ${prompted} is not a token of this model.` })
}

function readChat(fields: unknown): Result<GenerationRequest> {
  const parsed = chatBody.safeParse(fields, { error: issueText })
  if (!parsed.success) return failParsing(parsed.error)
  const body = parsed.data
  const { tools, logprobs, top_logprobs: top } = body
  const alternatives = typeof logprobs === 'number' ? logprobs : logprobs === true ? (top ?? 0) : undefined
  if (top !== undefined && alternatives === undefined) return failField(['top_logprobs'], 'logprobs_missing')
  const toolChoice = readToolChoice(body.tool_choice, tools)
  if (!toolChoice.ok) return toolChoice
  const usesTools = toolChoice.value.kind !== 'none'
  if (usesTools && alternatives !== undefined)
    return failField(['logprobs'], 'invalid_value', { message: 'logprobs cannot be combined with tools.' })
  if (usesTools && body.response_format.type !== 'text')
    return failField(['response_format'], 'invalid_value', {
      message: 'response_format cannot be combined with tools, unless tool_choice is "none".',
    })
  return ok({
    ...readShared(body),
    kind: 'chat',
    messages: body.messages.map(readMessage),
    prompts: [],
    maxTokens: body.max_completion_tokens ?? body.max_tokens,
    alternatives,
    tools,
    toolChoice: toolChoice.value,
    templateVariables: body.chat_template_kwargs,
  })
}

function readCompletion(fields: unknown): Result<GenerationRequest> {
  const parsed = completionBody.safeParse(fields, { error: issueText })
  if (!parsed.success) return failParsing(parsed.error)
  const { prompt, n, logprobs, max_tokens: maxTokens } = parsed.data
  if (prompt.length * n > MAX_CHOICES)
    return failField(['n'], 'invalid_value', {
      message: `${prompt.length} prompts with ${n} answers each exceed the maximum of ${MAX_CHOICES}.`,
    })
  return ok({
    ...readShared(parsed.data),
    kind: 'completion',
    messages: [],
    prompts: prompt,
    maxTokens,
    alternatives: logprobs,
    tools: [],
    toolChoice: { kind: 'none' },
    templateVariables: {},
  })
}

function readShared(body: z.infer<typeof sharedBody>) {
  const options = body.stream ? body.stream_options : undefined
  const format = body.response_format
  const sampling: Sampling = {
    temperature: body.temperature,
    topP: body.top_p,
    topK: Math.max(body.top_k, 0),
    minP: body.min_p,
    seed: body.seed,
    frequencyPenalty: body.frequency_penalty,
    presencePenalty: body.presence_penalty,
    repetitionPenalty: body.repetition_penalty,
    logitBias: new Map(Object.entries(body.logit_bias).map(([token, bias]) => [Number.parseInt(token, 10), bias])),
  }
  return {
    choices: body.n,
    stream: body.stream,
    usage: options?.continuous_usage_stats === true ? 'always' : options?.include_usage === true ? 'last' : 'none',
    sampling,
    stops: body.stop,
    format:
      format.type === 'json_schema' ? { kind: format.type, schema: format.json_schema.schema } : { kind: format.type },
  } as const satisfies Partial<GenerationRequest>
}

/** Templates have no developer role, and expect arguments as values. */
function readMessage({ role, tool_calls: calls, ...rest }: z.infer<typeof message>): ChatMessage {
  return {
    ...rest,
    role: role === 'developer' ? 'system' : role,
    ...(calls === null || calls === undefined
      ? {}
      : {
          tool_calls: calls.map((call) => ({
            ...call,
            function: { ...call.function, arguments: readArguments(call.function.arguments) },
          })),
        }),
  }
}

function readArguments(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Arguments that a model wrote may not be JSON; the template gets them unchanged.
    return text
  }
}

function readToolChoice(choice: z.infer<typeof chatBody>['tool_choice'], tools: readonly Tool[]): Result<ToolChoice> {
  if (typeof choice === 'object') {
    const { name } = choice.function
    const isThere = tools.some((one) => one.function.name === name)
    return isThere
      ? ok({ kind: 'named', name })
      : failField(['tool_choice'], 'invalid_value', { message: `tool_choice names ${name}, which is not in tools.` })
  }
  if (choice === 'required' && tools.length === 0)
    return failField(['tool_choice'], 'invalid_value', { message: 'tool_choice requires tools.' })
  return ok({ kind: tools.length === 0 ? 'none' : choice })
}

function failParsing(error: z.ZodError): Failure {
  const [issue] = error.issues
  const path = (issue?.path ?? []).map((step) => (typeof step === 'number' ? step : String(step)))
  const message = `${path.join('.')}: ${issue?.message ?? 'cannot be read'}`
  return failField(path, 'invalid_value', { message })
}

function refuseKey(name: string): Failure {
  return failField([name], 'unsupported_parameter', { name })
}
