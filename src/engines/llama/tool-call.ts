/**
 * Tool calls: the syntax of a model's template, a grammar that forces a call, and extracting calls from text.
 *
 * The API has no calls inside text, but models write them as text. A call is sent once it is complete; one that is cut
 * off because the tokens ran out is sent as text.
 */
import { randomBytes } from 'node:crypto'
import { failField, ok, type Result } from '../../contract/result.ts'
import { GrammarRules, escapeLiteral } from './grammar-rules.ts'
import { SchemaReader } from './json-grammar.ts'
import { isObject } from './json-schema.ts'

export interface Tool {
  readonly type: 'function'
  readonly function: { readonly name: string; readonly parameters?: unknown; readonly [key: string]: unknown }
}

export interface ToolCall {
  readonly index: number
  readonly id: string
  readonly type: 'function'
  /** `arguments` is JSON. */
  readonly function: { readonly name: string; readonly arguments: string }
}

/** The marks around the JSON of each call, and the key of its arguments. */
export interface ToolSyntax {
  readonly open: string
  readonly close: string
  readonly argumentsName: 'arguments' | 'parameters'
}

const taggedSyntax: ToolSyntax = { open: '<tool_call>', close: '</tool_call>', argumentsName: 'arguments' }
const bareSyntax: ToolSyntax = { open: '', close: '', argumentsName: 'parameters' }

/** undefined: the template has no tools, or writes calls in a format that we cannot parse. */
export function readToolSyntax(template: string): ToolSyntax | undefined {
  if (!/\btools\b/.test(template)) return undefined
  if (template.includes(taggedSyntax.open)) return taggedSyntax
  return /"parameters"\s*:/.test(template) && !template.includes('[TOOL_CALLS]') ? bareSyntax : undefined
}

/** For templates without tools, where a grammar enforces the call. */
export const bareCallSyntax: ToolSyntax = { open: '', close: '', argumentsName: 'arguments' }

/** A grammar for exactly one call of one of these tools, or also for text that does not begin like a call. */
export function grammarOfCall(
  tools: readonly Tool[],
  syntax: ToolSyntax,
  { orText }: { readonly orText: boolean },
): Result<string> {
  const rules = new GrammarRules()
  const calls: string[] = []
  for (const { function: one } of tools) {
    const reader = new SchemaReader(rules)
    const parameters = one.parameters ?? { type: 'object', properties: {}, additionalProperties: false }
    const args = reader.rule(parameters, parameters)
    if (reader.fault !== undefined)
      return failField(['tools'], 'unsupported_schema', { message: `${one.name}: ${reader.fault}` })
    const name = escapeLiteral(JSON.stringify(one.name))
    calls.push(rules.add(`"{\\"name\\":" space ${name} comma "\\"${syntax.argumentsName}\\":" space ${args} "}"`))
  }
  const around = (mark: string): string => (mark === '' ? '' : escapeLiteral(mark))
  const breakAfter = (mark: string): string => (mark === '' ? '' : '"\\n"')
  const call = [
    around(syntax.open),
    breakAfter(syntax.open),
    rules.addAny(calls),
    breakAfter(syntax.close),
    around(syntax.close),
  ].join(' ')
  const one = rules.add(call)
  if (!orText) return ok(rules.format(one))
  // Many tokenizers begin an answer with a space.
  const text = rules.add('[ \\n]{0,2} [^{ \\n] .*')
  const padded = rules.add(`[ \\n]{0,2} ${one}`)
  return ok(rules.format(rules.addAny([padded, text])))
}

export interface ReadCalls {
  readonly text: string
  readonly calls: readonly ToolCall[]
}

/** Extracts calls from a text that arrives in pieces. */
export class ToolCallReader {
  readonly #syntax: ToolSyntax
  readonly #names: ReadonlySet<string>
  /** Text that may be a call or the beginning of one. */
  #heldText = ''
  #isBegun = false
  #count = 0

  constructor(syntax: ToolSyntax, tools: readonly Tool[]) {
    this.#syntax = syntax
    this.#names = new Set(tools.map((tool) => tool.function.name))
  }

  get count(): number {
    return this.#count
  }

  push(piece: string): ReadCalls {
    this.#heldText += piece
    return this.#syntax.open === '' ? this.#readBare() : this.#readTagged()
  }

  end(): ReadCalls {
    const text = this.#heldText
    this.#heldText = ''
    const call = this.#syntax.open === '' ? this.#readCall(text) : undefined
    return call === undefined ? { text, calls: [] } : { text: '', calls: [call] }
  }

  /** Without marks, only an answer that is JSON from its first character can be a call. */
  #readBare(): ReadCalls {
    const isOpen = !this.#isBegun && /^\s*(\{|$)/.test(this.#heldText)
    if (isOpen) return { text: '', calls: [] }
    this.#isBegun = true
    const text = this.#heldText
    this.#heldText = ''
    return { text, calls: [] }
  }

  #readTagged(): ReadCalls {
    const { open, close } = this.#syntax
    const calls: ToolCall[] = []
    let text = ''
    for (;;) {
      const begin = this.#heldText.indexOf(open)
      if (begin < 0) {
        const keepLength = overlap(this.#heldText, open)
        text += this.#heldText.slice(0, this.#heldText.length - keepLength)
        this.#heldText = this.#heldText.slice(this.#heldText.length - keepLength)
        break
      }
      text += this.#heldText.slice(0, begin)
      this.#heldText = this.#heldText.slice(begin)
      const end = this.#heldText.indexOf(close)
      if (end < 0) break
      const call = this.#readCall(this.#heldText.slice(open.length, end))
      if (call === undefined) text += this.#heldText.slice(0, end + close.length)
      else calls.push(call)
      this.#heldText = this.#heldText.slice(end + close.length)
    }
    // White space between calls is layout, not text.
    return { text: this.#count > 0 && text.trim() === '' ? '' : text, calls }
  }

  #readCall(json: string): ToolCall | undefined {
    const value = parseJson(json)
    if (!isObject(value) || typeof value.name !== 'string' || !this.#names.has(value.name)) return undefined
    const args = value.arguments ?? value.parameters ?? {}
    this.#count += 1
    return {
      index: this.#count - 1,
      id: `call_${randomBytes(12).toString('hex')}`,
      type: 'function',
      function: { name: value.name, arguments: JSON.stringify(args) },
    }
  }
}

/** Length of the longest suffix that begins a mark. */
function overlap(text: string, mark: string): number {
  let length = Math.min(text.length, mark.length - 1)
  while (length > 0 && !text.endsWith(mark.slice(0, length))) length -= 1
  return length
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
