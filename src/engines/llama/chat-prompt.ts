/**
 * Builds a prompt from messages with the model's own template. A file without one gets a plain default: `User: …`,
 * `Assistant: …`, and an answer that ends where the model continues with `User:`.
 *
 * Messages may contain the names of special tokens, such as the end-of-turn mark. In the prompt these are literal text.
 * To tell them from the template's own, they pass through it as random placeholders.
 */
import { randomBytes } from 'node:crypto'
import { Template } from '@huggingface/jinja'
import { failField, ok, type Result } from '../../contract/result.ts'
import { readToolSyntax, type Tool, type ToolSyntax } from './tool-call.ts'
import type { PromptPart } from './vocabulary.ts'

export interface ChatMessage {
  readonly role: string
  readonly content: string
  readonly [key: string]: unknown
}

export interface ChatInput {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly Tool[]
  /** Whether the answer must be a tool call. */
  readonly mustCall: boolean
  /** More variables for the template, such as `enable_thinking`. */
  readonly variables: Readonly<Record<string, unknown>>
}

export interface TemplateFacts {
  /** null: the file has none. */
  readonly template: string | null
  readonly bosText: string
  readonly eosText: string
  readonly specialTexts: readonly string[]
}

const PLAIN_TEMPLATE = `{%- for message in messages %}{{ message.role | capitalize }}: {{ message.content }}

{% endfor %}Assistant:`
const PLAIN_STOP = '\nUser:'

export class ChatPrompt {
  readonly #template: Template
  readonly #facts: TemplateFacts
  readonly #special: RegExp | undefined
  readonly toolSyntax: ToolSyntax | undefined
  /** Texts that end an answer, in addition to those of the request. */
  readonly stops: readonly string[]

  /** Throws if the template is invalid. */
  constructor(facts: TemplateFacts) {
    this.#facts = facts
    this.#template = new Template(facts.template ?? PLAIN_TEMPLATE)
    this.toolSyntax = facts.template === null ? undefined : readToolSyntax(facts.template)
    this.stops = facts.template === null ? [PLAIN_STOP] : []
    const escaped = facts.specialTexts.map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
    this.#special = escaped.length === 0 ? undefined : new RegExp(escaped.join('|'), 'g')
  }

  /** A template that does not support tool calls and results would drop them, so they become text. */
  #spellCalls(input: ChatInput): ChatInput {
    const knowsCalls = /\btool_calls\b/.test(this.#facts.template ?? '')
    return knowsCalls ? input : { ...input, messages: input.messages.map(withCallsInText) }
  }

  render(input: ChatInput): Result<PromptPart[]> {
    const literals: string[] = []
    const mark = randomBytes(8).toString('hex')
    const hide = (text: string): string =>
      this.#special === undefined
        ? text
        : text.replaceAll(this.#special, (literal) => `z${mark}z${literals.push(literal) - 1}z`)
    const { messages, tools } = this.toolSyntax === undefined ? withToolsInText(this.#spellCalls(input)) : input
    try {
      const text = this.#template.render({
        ...input.variables,
        messages: mapTexts(messages, hide),
        ...(tools.length === 0 ? {} : { tools: mapTexts(tools, hide) }),
        bos_token: this.#facts.bosText,
        eos_token: this.#facts.eosText,
        add_generation_prompt: true,
      })
      return ok(splitAtLiterals(text, mark, literals))
    } catch (error) {
      // Templates reject input their models were not trained on, such as two user messages in a row.
      const cause = error instanceof Error ? error.message : String(error)
      return failField(['messages'], 'invalid_messages', { cause })
    }
  }
}

function splitAtLiterals(text: string, mark: string, literals: readonly string[]): PromptPart[] {
  // Every second piece is the index of a literal.
  return text
    .split(new RegExp(`z${mark}z(\\d+)z`))
    .map((piece, at) => (at % 2 === 0 ? { text: piece, literal: false } : literalAt(literals, piece)))
    .filter((part) => part.text !== '')
}

function literalAt(literals: readonly string[], index: string): PromptPart {
  return { text: literals[Number.parseInt(index, 10)] ?? '', literal: true }
}

/** A copy with `change` applied to every string, at any depth. */
function mapTexts<T>(value: T, change: (text: string) => string): T
function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value)
  if (Array.isArray(value)) return value.map((one) => mapTexts<unknown>(one, change))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, mapTexts<unknown>(one, change)]))
}

/** Puts tools before the first message, for templates that do not support them. */
function withToolsInText({ messages, tools, variables, mustCall }: ChatInput): ChatInput {
  const [first, ...rest] = messages
  if (tools.length === 0 || first === undefined) return { messages, tools, variables, mustCall }
  const list = tools.map((tool) => JSON.stringify(tool.function)).join('\n')
  const rule = mustCall
    ? 'Answer with a call of one of these functions, as JSON with "name" and "arguments"'
    : 'If one of these functions helps, answer with a call of it only, as JSON with "name" and "arguments". Otherwise answer in plain text'
  const content = `${rule}:\n${list}\n\n${first.content}`
  return { messages: [{ ...first, content }, ...rest], tools: [], variables, mustCall }
}

function withCallsInText(message: ChatMessage): ChatMessage {
  const { tool_calls: calls, tool_call_id: _id, ...plain } = message
  if (message.role === 'tool') return { ...plain, role: 'user', content: `The function returned: ${message.content}` }
  if (!Array.isArray(calls) || calls.length === 0) return message
  const written = calls.map((call: { function?: unknown }) => JSON.stringify(call.function)).join('\n')
  return { ...plain, content: [message.content, written].filter((text) => text !== '').join('\n') }
}
