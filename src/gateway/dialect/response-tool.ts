/**
 * The tools of a response as functions of a chat. Custom tools take one text; those of a namespace have its name before
 * theirs. What only another service could run is ignored by name, since agents always send mixed lists.
 */
import { createHash } from 'node:crypto'
import { failField, type Failure } from '../../contract/result.ts'
import type { JsonObject } from './chat-body.ts'

export interface ToolName {
  readonly kind: 'function' | 'custom'
  readonly name: string
  readonly namespace: string | undefined
}

/** The tools by the names that the model knows. */
export type ToolNames = ReadonlyMap<string, ToolName>

export interface ReadTools {
  /** Members of the chat. */
  readonly members: JsonObject
  readonly names: ToolNames
  readonly ignored: readonly string[]
}

export const emptyInput = '{}'
const MAX_NAME_CHARS = 64
const HASH_CHARS = 8
const customParameters = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
}

/** The arguments of a custom tool's function. */
export function customArguments(input: string): string {
  return JSON.stringify({ input })
}

/** The name of a function for the model. It depends on nothing else, so that each turn has the same. */
export function flatName(name: string, namespace: string | null | undefined): string {
  if (namespace === undefined || namespace === null) return name
  const flat = `${namespace}__${name}`
  if (flat.length <= MAX_NAME_CHARS) return flat
  const hash = createHash('sha256').update(flat).digest('hex').slice(0, HASH_CHARS)
  return `${flat.slice(0, MAX_NAME_CHARS - HASH_CHARS - 1)}_${hash}`
}

export function readResponseTools(body: JsonObject): ReadTools | Failure {
  const requestedTools = (body['tools'] ?? []) as readonly JsonObject[]
  const ignored: string[] = []
  const names = new Map<string, ToolName>()
  const functions: JsonObject[] = []
  for (const [at, tool] of requestedTools.entries()) {
    const inner = tool['type'] === 'namespace' ? ((tool['tools'] ?? []) as readonly JsonObject[]) : [tool]
    const namespace = tool['type'] === 'namespace' ? String(tool['name']) : undefined
    for (const one of inner) {
      const written = writeTool(one, namespace, ignored)
      if (written === undefined) continue
      const flat = flatName(written.name.name, namespace)
      if (names.has(flat)) {
        return failField(['tools', at, 'name'], 'invalid_value', { message: `Two tools are named ${flat}.` })
      }
      names.set(flat, written.name)
      functions.push({ type: 'function', function: { name: flat, ...written.members } })
    }
  }
  const choice = readChoice(body['tool_choice'], names)
  if ('ok' in choice) return choice
  const offered = functions.filter(({ function: one }) => choice.allows((one as { name: string }).name))
  if (offered.length === 0 && choice.needsTool) {
    return failField(['tool_choice'], 'invalid_value', { message: 'There is no tool that the model can call.' })
  }
  if (offered.length === 0) return { members: {}, names, ignored }
  const members = {
    tools: offered,
    ...(choice.value === undefined ? {} : { tool_choice: choice.value }),
    ...(body['parallel_tool_calls'] === false ? { parallel_tool_calls: false } : {}),
  }
  return { members, names, ignored }
}

interface WrittenTool {
  readonly name: ToolName
  readonly members: JsonObject
}

/** undefined: only another service could run it. */
function writeTool(tool: JsonObject, namespace: string | undefined, ignored: string[]): WrittenTool | undefined {
  const { type, name, description, parameters, strict, format } = tool as Readonly<Record<string, unknown>> & {
    readonly format?: { readonly type?: unknown; readonly definition?: unknown; readonly syntax?: unknown } | null
  }
  if ((type !== 'function' && type !== 'custom') || typeof name !== 'string') {
    ignored.push(String(type ?? name))
    return undefined
  }
  const texts = typeof description === 'string' ? [description] : []
  if (type === 'function') {
    const members = {
      ...(texts.length === 0 ? {} : { description: texts[0] }),
      parameters: parameters ?? { type: 'object', properties: {} },
      ...(strict === true ? { strict } : {}),
    }
    return { name: { kind: type, name, namespace }, members }
  }
  if (format?.type === 'grammar') {
    // Engines cannot hold a model to it; told of it, the model follows it mostly.
    texts.push(`The input follows this ${String(format.syntax)} grammar:\n${String(format.definition)}`)
    ignored.push('grammar')
  }
  const members = {
    ...(texts.length === 0 ? {} : { description: texts.join('\n\n') }),
    parameters: customParameters,
  }
  return { name: { kind: type, name, namespace }, members }
}

interface ToolChoice {
  /** The value for the engine. undefined: the engine's default. */
  readonly value: unknown
  readonly needsTool: boolean
  readonly allows: (flat: string) => boolean
}

const everyTool = (): boolean => true

function readChoice(choice: unknown, names: ToolNames): ToolChoice | Failure {
  if (choice === undefined || choice === null) return { value: undefined, needsTool: false, allows: everyTool }
  if (typeof choice === 'string') {
    if (['auto', 'none', 'required'].includes(choice)) {
      return { value: choice, needsTool: choice === 'required', allows: everyTool }
    }
    return failField(['tool_choice'], 'invalid_value', {
      message: 'tool_choice is auto, none, required, or an object.',
    })
  }
  const { type, mode, tools } = choice as JsonObject & { readonly tools?: readonly JsonObject[] }
  if (type === 'allowed_tools' && Array.isArray(tools)) {
    const allowed = new Set(tools.map((one) => nameOf(one)))
    return { value: mode ?? 'auto', needsTool: mode === 'required', allows: (flat) => allowed.has(flat) }
  }
  const flat = nameOf(choice as JsonObject)
  if ((type === 'function' || type === 'custom') && names.has(flat)) {
    return { value: { type: 'function', function: { name: flat } }, needsTool: true, allows: everyTool }
  }
  const message = `There is no tool ${flat || String(type)} that the model can call.`
  return failField(['tool_choice'], 'invalid_value', { message })
}

function nameOf({ name, namespace }: JsonObject): string {
  return typeof name === 'string' ? flatName(name, namespace as string | null | undefined) : ''
}
