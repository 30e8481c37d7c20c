/**
 * A grammar in llama.cpp's notation, built rule by rule. Rules with the same body are shared, so that repetitive
 * schemas stay small and equal alternatives do not multiply.
 */

const MAX_RULES = 5_000
const MAX_CHARS = 500_000

export class GrammarRules {
  readonly #bodies = new Map<string, string>()
  readonly #names = new Map<string, string>()
  #chars = 0
  #count = 0

  get isTooLarge(): boolean {
    return this.#count > MAX_RULES || this.#chars > MAX_CHARS
  }

  /** The name of the rule with this body. */
  add(body: string): string {
    const existingName = this.#names.get(body)
    if (existingName !== undefined) return existingName
    const name = this.reserve()
    this.#names.set(body, name)
    this.set(name, body)
    return name
  }

  addAny(names: readonly string[]): string {
    const [only, ...others] = new Set(names)
    return only !== undefined && others.length === 0 ? only : this.add([...new Set(names)].join(' | '))
  }

  /** A name whose body is set later, for recursive rules. */
  reserve(): string {
    this.#count += 1
    return `r${this.#count}`
  }

  set(name: string, body: string): void {
    this.#bodies.set(name, body)
    this.#chars += body.length
  }

  format(root: string): string {
    const shared = Object.entries(sharedRules).map(([name, body]) => `${name} ::= ${body}`)
    const ownRules = [...this.#bodies].map(([name, body]) => `${name} ::= ${body}`)
    return [`root ::= ${root}`, ...shared, ...ownRules].join('\n')
  }
}

/** A quoted literal. */
export function escapeLiteral(text: string): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n').replaceAll('\r', '\\r')
  return `"${escaped}"`
}

/** Rules available to every grammar. White space is bounded, or a model could write it forever. */
const sharedRules = {
  space: '(" " | "\\n" [ ]{0,16})?',
  comma: '"," space',
  colon: '":" space',
  char: '[^"\\\\\\x7F\\x00-\\x1F] | "\\\\" (["\\\\bfnrt/] | "u" [0-9a-fA-F]{4})',
  string: '"\\"" char* "\\""',
  count: '"0" | [1-9] [0-9]{0,14}',
  integer: '"-"? count',
  amount: 'count ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?',
  number: '"-"? amount',
  member: 'string colon value',
  object: '"{" space (member (comma member)*)? space "}"',
  array: '"[" space (value (comma value)*)? space "]"',
  value: 'object | array | string | number | "true" | "false" | "null"',
} as const
