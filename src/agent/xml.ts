/**
 * A small reader for the XML that `nvidia-smi -q -x` prints. It knows elements, attributes, text, the five named
 * entities and numbered ones; comments, declarations and the DOCTYPE are passed over and nothing in them is obeyed. It
 * is lenient where a driver may be sloppy (a stray end tag, a cut end) and strict on size and depth.
 */

export interface XmlElement {
  readonly name: string
  readonly attributes: Readonly<Record<string, string>>
  readonly children: readonly XmlElement[]
  /** Its own text without that of its children, trimmed. */
  readonly text: string
}

/** Sixteen GPUs make some 500 KB. */
const MAX_CHARS = 8 * 1_048_576
const MAX_DEPTH = 32
const MAX_ELEMENTS = 50_000

interface Open {
  name: string
  attributes: Record<string, string>
  children: XmlElement[]
  text: string
}

const skipped = [
  ['<!--', '-->'],
  ['<?', '?>'],
  ['<!', '>'],
] as const

/** The outermost element. Throws where there is none, or where the text is beyond the limits. */
export function parseXml(text: string): XmlElement {
  if (text.length > MAX_CHARS) throw new Error(`XML of ${text.length} characters is too long`)
  const root: Open = { name: '', attributes: {}, children: [], text: '' }
  const open: Open[] = [root]
  let at = 0
  let elements = 0
  while (at < text.length) {
    const top = open.at(-1) ?? root
    const next = text.indexOf('<', at)
    top.text += decode(text.slice(at, next === -1 ? text.length : next))
    if (next === -1) break
    if (text.startsWith('<![CDATA[', next)) {
      const end = indexOrEnd(text, ']]>', next)
      top.text += text.slice(next + '<![CDATA['.length, end)
      at = end + 3
      continue
    }
    const skip = skipped.find(([start]) => text.startsWith(start, next))
    if (skip !== undefined) {
      at = indexOrEnd(text, skip[1], next) + skip[1].length
      continue
    }
    const end = endOfTag(text, next)
    const tag = text.slice(next + 1, end)
    at = end + 1
    if (tag.startsWith('/')) {
      closeTo(open, tag.slice(1).trim())
      continue
    }
    elements += 1
    if (elements > MAX_ELEMENTS) throw new Error(`XML of more than ${MAX_ELEMENTS} elements`)
    if (open.length > MAX_DEPTH) throw new Error(`XML that is more than ${MAX_DEPTH} elements deep`)
    const made = openTag(tag)
    top.children.push(made)
    if (!tag.endsWith('/')) open.push(made)
  }
  for (const one of open) one.text = one.text.trim()
  if (root.children[0] === undefined) throw new Error('no XML')
  return root.children[0]
}

/** The first element under `from` by that path of names; undefined where there is none. */
export function findElement(from: XmlElement | undefined, ...names: readonly string[]): XmlElement | undefined {
  return names.reduce((at, name) => at?.children.find((child) => child.name === name), from)
}

/** An end tag ends everything inside of what it names; one that names nothing open is passed over. */
function closeTo(open: Open[], name: string): void {
  const from = open.findLastIndex((one, depth) => depth > 0 && one.name === name)
  if (from === -1) return
  for (const one of open.splice(from)) one.text = one.text.trim()
}

function openTag(tag: string): Open {
  const name = /^[^\s/]*/.exec(tag)?.[0] ?? ''
  const attributes = Object.create(null) as Record<string, string>
  for (const [, key = '', quoted = ''] of tag.slice(name.length).matchAll(/([^\s=/]+)\s*=\s*("[^"]*"|'[^']*')/g)) {
    attributes[key] = decode(quoted.slice(1, -1))
  }
  return { name, attributes, children: [], text: '' }
}

/** A `>` inside of quotes does not end a tag. */
function endOfTag(text: string, from: number): number {
  let quote = ''
  for (let at = from; at < text.length; at += 1) {
    const char = text.charAt(at)
    if (quote !== '') quote = char === quote ? '' : quote
    else if (char === '"' || char === "'") quote = char
    else if (char === '>') return at
  }
  return text.length
}

const entities: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

function decode(text: string): string {
  return text.replaceAll(/&(#x[0-9a-f]{1,6}|#\d{1,7}|\w{1,10});/gi, (whole, name: string) => {
    if (!name.startsWith('#')) return entities[name] ?? whole
    const code = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number.parseInt(name.slice(1), 10)
    return code <= 0x10_ff_ff ? String.fromCodePoint(code) : whole
  })
}

function indexOrEnd(text: string, part: string, from: number): number {
  return text.includes(part, from) ? text.indexOf(part, from) : text.length
}
