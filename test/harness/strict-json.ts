/**
 * JSON as the strictest engine reads it: RFC 8259 exactly, without duplicate keys, lone surrogates or numbers outside
 * the range of a double. Independent of JSON.parse, which the code under test uses.
 */

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const SPACE = /[ \t\n\r]*/y
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
// oxlint-disable-next-line no-control-regex -- control characters are what is not allowed
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const words = new Map<string, unknown>([
  ['true', true],
  ['false', false],
  ['null', null],
])

/** Throws on anything else. */
export function parseStrictly(bytes: Uint8Array): unknown {
  const reader = new Reader(decoder.decode(bytes))
  const value = reader.value()
  reader.end()
  return value
}

class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  end(): void {
    this.#match(SPACE)
    if (this.#at !== this.#text.length) throw this.#wrong()
  }

  value(): unknown {
    this.#match(SPACE)
    const first = this.#text[this.#at]
    if (first === '{') return this.#object()
    if (first === '[') return this.#list()
    if (first === '"') return this.#string()
    for (const [word, value] of words) {
      if (!this.#text.startsWith(word, this.#at)) continue
      this.#at += word.length
      return value
    }
    const number = Number(this.#match(NUMBER))
    if (!Number.isFinite(number)) throw this.#wrong()
    return number
  }

  #object(): unknown {
    const members = new Map<string, unknown>()
    this.#at += 1
    if (this.#follows('}')) return {}
    do {
      this.#match(SPACE)
      const name = this.#string()
      if (members.has(name) || !this.#follows(':')) throw this.#wrong()
      members.set(name, this.value())
    } while (this.#follows(','))
    if (!this.#follows('}')) throw this.#wrong()
    return Object.fromEntries(members)
  }

  #list(): unknown[] {
    const entries: unknown[] = []
    this.#at += 1
    if (this.#follows(']')) return entries
    do entries.push(this.value())
    while (this.#follows(','))
    if (!this.#follows(']')) throw this.#wrong()
    return entries
  }

  #string(): string {
    const text = JSON.parse(this.#match(STRING)) as string
    if (!text.isWellFormed()) throw this.#wrong()
    return text
  }

  #follows(sign: string): boolean {
    this.#match(SPACE)
    if (this.#text[this.#at] !== sign) return false
    this.#at += 1
    return true
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    if (found === undefined || (found === '' && pattern !== SPACE)) throw this.#wrong()
    this.#at += found.length
    return found
  }

  #wrong(): Error {
    return new Error(`not JSON at ${this.#at}`)
  }
}
