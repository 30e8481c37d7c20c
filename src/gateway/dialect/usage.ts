/**
 * Reads token usage out of the text of an engine's answer. Inside a JSON string every quote is escaped, so an unescaped
 * `"usage":` is always a key, never model output.
 */

export interface EngineUsage {
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
}

/** The first `"usage"` after `from` whose value is an object, and its position. */
export interface FoundUsage {
  readonly usage: EngineUsage
  readonly start: number
  readonly end: number
}

const KEY = '"usage"'

export function findUsage(text: string, from: number): FoundUsage | undefined {
  for (let start = text.indexOf(KEY, from); start !== -1; start = text.indexOf(KEY, start + KEY.length)) {
    const open = text.indexOf('{', start)
    if (open === -1) return undefined
    // Only a colon and whitespace may separate the key from its object; otherwise the value is null.
    if (!/^\s*:\s*$/.test(text.slice(start + KEY.length, Math.min(open, start + KEY.length + 16)))) continue
    const end = endOfObject(text, open)
    const usage = end === -1 ? undefined : readUsage(text.slice(open, end))
    if (usage !== undefined) return { usage, start, end }
  }
  return undefined
}

/** Usage holds only numbers, nulls and plain names, so every brace is structural. */
function endOfObject(text: string, open: number): number {
  let depth = 0
  for (let at = open; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x7b) depth += 1
    else if (code === 0x7d && --depth === 0) return at + 1
  }
  return -1
}

/** undefined: not in the OpenAI form. */
function readUsage(text: string): EngineUsage | undefined {
  if (!text.includes('"prompt_tokens"') && !text.includes('"completion_tokens"')) return undefined
  return {
    inputTokens: numberAfter(text, '"prompt_tokens"'),
    cachedTokens: numberAfter(text, '"cached_tokens"'),
    outputTokens: numberAfter(text, '"completion_tokens"'),
  }
}

/** Token counts are non-negative integers: anything else counts as 0. */
function numberAfter(text: string, key: string): number {
  const at = text.indexOf(key)
  if (at === -1) return 0
  const [, digits = ''] = /^\s*:\s*(\d{1,12})/.exec(text.slice(at + key.length, at + key.length + 24)) ?? []
  return digits === '' ? 0 : Number.parseInt(digits, 10)
}

/** undefined: not a JSON object. The text is latin1, so strings in the result may be garbled. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}
