/**
 * Writes typed text as a literal of a language: in single quotes for shells; as JSON strings for Python and TypeScript,
 * which accept every JSON escape.
 */
export type Body = Readonly<Record<string, unknown>>

export function curl(url: string, body: Body, options: readonly string[]): string {
  return [
    `curl -sS ${options.join(' ')} ${inShell(url)}`,
    '  -H "Authorization: Bearer $BERTH_KEY"',
    "  -H 'Content-Type: application/json'",
    `  -d ${inShell(JSON.stringify(body, null, 2))}`,
  ].join(' \\\n')
}

/** Within single quotes, only the closing quote is special. */
export function inShell(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`
}

export function text(value: string): string {
  return JSON.stringify(value)
}

export function python(value: unknown, depth: number): string {
  if (value === null || value === undefined) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value !== 'object') return JSON.stringify(value)
  const [open, close, items] = Array.isArray(value)
    ? (['[', ']', value.map((one: unknown) => python(one, depth + 1))] as const)
    : (['{', '}', Object.entries(value).map(([name, one]) => `${text(name)}: ${python(one, depth + 1)}`)] as const)
  return block(open, close, items, { depth, indent: '    ' })
}

export function typescript(value: unknown, depth: number): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const [open, close, items] = Array.isArray(value)
    ? (['[', ']', value.map((one: unknown) => typescript(one, depth + 1))] as const)
    : (['{ ', ' }', Object.entries(value).map(([name, one]) => `${name}: ${typescript(one, depth + 1)}`)] as const)
  return block(open, close, items, { depth, indent: '  ' })
}

const LINE_CHARS = 80

function block(
  open: string,
  close: string,
  items: readonly string[],
  { depth, indent }: { depth: number; indent: string },
): string {
  const line = `${open}${items.join(', ')}${close}`
  if (line.length <= LINE_CHARS && !line.includes('\n')) return line
  const inner = indent.repeat(depth + 1)
  return `${open.trim()}\n${items.map((one) => `${inner}${one},\n`).join('')}${indent.repeat(depth)}${close.trim()}`
}

export function lines(...all: readonly string[]): string {
  return all.join('\n')
}
