/** All tools, and their list for a key: compact, since every conversation of an agent begins with it. */
import type { Tool as ListedTool } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { api, type OperationId } from '../../contract/api.ts'
import type { Endpoint } from '../../contract/endpoint.ts'
import { mayCall } from '../http/access.ts'
import type { Authenticated } from '../http/authenticate.ts'
import { destroyTools } from './destroy-tools.ts'
import { getQuote } from './quote-tool.ts'
import { readTools } from './read-tools.ts'
import { spendTools } from './spend-tools.ts'
import type { Tool } from './tool.ts'

export const tools: readonly Tool[] = [...readTools, getQuote, ...spendTools, ...destroyTools]

const byName = new Map(tools.map((tool) => [tool.name, tool]))
const listed = new Map<Tool, ListedTool>()

export function findTool(name: string): Tool | undefined {
  return byName.get(name)
}

export function listTools(caller: Authenticated): ListedTool[] {
  return tools.filter((tool) => missingOf(caller, tool) === undefined).map(listTool)
}

/** The first operation of a tool that the key may not call. */
export function missingOf(caller: Authenticated, { operations }: Tool): OperationId | undefined {
  return operations.find((operation) => !mayCall((api[operation] as Endpoint).access, caller))
}

function listTool(tool: Tool): ListedTool {
  const entry = listed.get(tool) ?? describe(tool)
  listed.set(tool, entry)
  return entry
}

function describe({ name, description, input, output, hints }: Tool): ListedTool {
  return {
    name,
    description,
    inputSchema: compact(z.toJSONSchema(input, { io: 'input' }), false) as ListedTool['inputSchema'],
    outputSchema: compact(z.toJSONSchema(output, { io: 'output' }), true) as NonNullable<ListedTool['outputSchema']>,
    annotations: hints,
  }
}

/**
 * Without what costs tokens and tells a model little: that a number is positive or a safe integer, lengths of texts, and that an answer
 * has all of its fields. A call is validated by the whole schema, and its errors name the limits.
 */
function compact(schema: unknown, isOutput: boolean): unknown {
  if (Array.isArray(schema)) return schema.map((one) => compact(one, isOutput))
  if (typeof schema !== 'object' || schema === null) return schema
  const fields = Object.entries(schema).filter(([name, value]) => !isNoise(name, value, isOutput))
  const inner = fields.map(([name, value]) => [
    name,
    name === 'properties' ? compactFields(value, isOutput) : compact(value, isOutput),
  ])
  return nullable(Object.fromEntries(inner) as Record<string, unknown>)
}

/** Names of fields are not keywords. */
function compactFields(fields: unknown, isOutput: boolean): unknown {
  return Object.fromEntries(Object.entries(fields as object).map(([name, schema]) => [name, compact(schema, isOutput)]))
}

const noise = new Set(['$schema', 'propertyNames', 'pattern', 'minLength', 'maxLength', 'maxItems'])

function isNoise(name: string, value: unknown, isOutput: boolean): boolean {
  if (noise.has(name) || (isOutput && name === 'required')) return true
  if (name === 'additionalProperties' && value === false) return true
  if (name === 'minimum' || name === 'exclusiveMinimum') return value === 0 || value === 1 || isEdge(value)
  return name === 'maximum' && isEdge(value)
}

function isEdge(value: unknown): boolean {
  return Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER
}

/** `anyOf` of a type and null, in one line. */
function nullable(schema: Record<string, unknown>): Record<string, unknown> {
  const { anyOf, ...others } = schema
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return schema
  const [one, other] = anyOf as Array<Record<string, unknown>>
  const isSimple = typeof one?.['type'] === 'string' && other?.['type'] === 'null' && Object.keys(one).length === 1
  return isSimple ? { ...others, type: [one['type'], 'null'] } : schema
}
