/** A validated request: prompts as tokens, and a grammar. Everything that can be rejected is checked here. */
import type { LlamaGrammar, Token } from 'node-llama-cpp'
import { failField, ok, type Result } from '../../contract/result.ts'
import { grammarOfAnyObject, grammarOfSchema } from './json-grammar.ts'
import type { LoadedModel } from './loaded-model.ts'
import type { GenerationRequest } from './request.ts'
import type { Sampling } from './sampling.ts'
import { bareCallSyntax, grammarOfCall, type Tool, type ToolSyntax } from './tool-call.ts'
import type { PromptPart } from './vocabulary.ts'

export interface Job {
  readonly prompts: ReadonlyArray<readonly Token[]>
  readonly choicesPerPrompt: number
  /** In addition to the limit of the context. */
  readonly maxTokens: number
  readonly sampling: Sampling
  readonly stops: readonly string[]
  readonly alternatives: number | undefined
  readonly grammar: LlamaGrammar | undefined
  /** undefined: the answer is not searched for tool calls. */
  readonly calls: { readonly syntax: ToolSyntax; readonly tools: readonly Tool[] } | undefined
}

export async function prepareJob(loaded: LoadedModel, request: GenerationRequest): Promise<Result<Job>> {
  const { kind, toolChoice, sampling } = request
  const usesTools = toolChoice.kind !== 'none'
  const syntax = loaded.chatPrompt.toolSyntax ?? bareCallSyntax
  const prompts = readPrompts(loaded, request)
  if (!prompts.ok) return prompts
  const grammar = await makeGrammar(loaded, request, syntax)
  if (!grammar.ok) return grammar
  return ok({
    prompts: prompts.value,
    choicesPerPrompt: request.choices,
    maxTokens: request.maxTokens ?? Infinity,
    sampling,
    stops: kind === 'chat' ? [...request.stops, ...loaded.chatPrompt.stops] : request.stops,
    alternatives: request.alternatives,
    grammar: grammar.value,
    calls: usesTools ? { syntax, tools: request.tools } : undefined,
  })
}

function readPrompts(loaded: LoadedModel, request: GenerationRequest): Result<Token[][]> {
  if (request.kind === 'completion') {
    const prompts: Token[][] = []
    for (const prompt of request.prompts) {
      const tokens =
        typeof prompt === 'string'
          ? readPrompt(loaded, [{ text: prompt, literal: false }], 'prompt')
          : fitPrompt(loaded, prompt as Token[], 'prompt')
      if (!tokens.ok) return tokens
      prompts.push(tokens.value)
    }
    return ok(prompts)
  }
  const parts = loaded.chatPrompt.render({
    messages: request.messages,
    tools: request.toolChoice.kind === 'none' ? [] : request.tools,
    mustCall: request.toolChoice.kind === 'required' || request.toolChoice.kind === 'named',
    variables: request.templateVariables,
  })
  if (!parts.ok) return parts
  const tokens = readPrompt(loaded, parts.value, 'messages')
  return tokens.ok ? ok([tokens.value]) : tokens
}

function readPrompt(loaded: LoadedModel, parts: readonly PromptPart[], param: string): Result<Token[]> {
  const { contextTokens, vocabulary } = loaded
  const bytes = parts.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)
  // Tokenizing blocks the thread that serves all requests, so a prompt that is far too long is rejected by its size.
  const isFarTooLong = bytes > contextTokens * vocabulary.longestTokenBytes
  return isFarTooLong
    ? tooLong(contextTokens, `more than ${contextTokens}`, param)
    : fitPrompt(loaded, vocabulary.tokenize(parts), param)
}

function fitPrompt({ contextTokens }: LoadedModel, tokens: Token[], param: string): Result<Token[]> {
  if (tokens.length >= contextTokens) return tooLong(contextTokens, String(tokens.length), param)
  return tokens.length === 0
    ? failField([param], 'invalid_value', { message: `${param}: the prompt is empty.` })
    : ok(tokens)
}

/** Clients recognize this sentence. */
function tooLong(contextTokens: number, length: string, param: string): Result<never> {
  const message = `This model's maximum context length is ${contextTokens} tokens, the answer included. The prompt has ${length} tokens; shorten it.`
  return failField([param], 'context_length_exceeded', { message })
}

async function makeGrammar(
  loaded: LoadedModel,
  { format, tools, toolChoice }: GenerationRequest,
  syntax: ToolSyntax,
): Promise<Result<LlamaGrammar | undefined>> {
  const isForced = toolChoice.kind === 'required' || toolChoice.kind === 'named'
  // If the template does not explain tool calls, a grammar ensures that an answer which begins like a call is one.
  const mayCall = toolChoice.kind === 'auto' && loaded.chatPrompt.toolSyntax === undefined
  const callable = tools.filter(({ function: { name } }) => toolChoice.kind !== 'named' || name === toolChoice.name)
  const param = isForced || mayCall ? 'tools' : 'response_format'
  const text =
    isForced || mayCall
      ? grammarOfCall(callable, syntax, { orText: mayCall })
      : format.kind === 'json_schema'
        ? grammarOfSchema(format.schema, 'response_format')
        : ok(format.kind === 'json_object' ? grammarOfAnyObject() : undefined)
  // If the call is optional, the model may still write one that no grammar can express.
  if (mayCall && !text.ok) return ok(undefined)
  if (!text.ok || text.value === undefined) return text.ok ? ok(undefined) : text
  try {
    return ok(await loaded.llama.createGrammar({ grammar: text.value }))
  } catch {
    // llama.cpp gives no details. The usual cause is a schema that only refers to itself.
    return failField([param], 'unsupported_schema', {
      message: `${param}: the schema cannot be turned into a grammar.`,
    })
  }
}
