/** Long lists come in pages. Reads one page, all of them, or as many as it takes to find enough rows. */
import type { Command } from 'commander'
import { limits } from '../../base/limits.ts'
import type { CallableId } from '../../client/client.ts'
import { parseWhole } from './flag.ts'
import { callWith } from './input.ts'
import { operationNamed } from './operation-source.ts'
import type { Call, Options } from './row-type.ts'

/** `--all` reads at most this many pages, and then prints the cursor to continue from. */
const MAX_PAGES = 500

export interface Page<T> {
  readonly rows: readonly T[]
  readonly onWire: unknown
  /** The noun for one row, derived from the name of the list. */
  readonly noun: string
  /** The sentence that tells the user how to get the next page. undefined: this is the last page. */
  readonly next: string | undefined
}

interface PageOptions {
  readonly limit?: number
  readonly cursor?: string
  readonly all?: true
}

export function isPaged(operation: CallableId): boolean {
  return cursorFieldOf(operation) !== undefined
}

/** The name of the cursor parameter. Lists in OpenAI's format continue after the id of the last row. */
function cursorFieldOf(operation: CallableId): 'cursor' | 'after' | undefined {
  const names = operationNamed(operation).fields.flatMap(({ part, path }) => (part === 'query' ? path : []))
  return (['cursor', 'after'] as const).find((name) => names.includes(name))
}

export const pageOptions = (rowsShown: number = limits.pageRowsDefault): Options => ({
  '-n, --limit <n>': { help: 'rows to show', default: rowsShown, parse: parseWhole(1, limits.pageRows) },
  '--cursor <cursor>': 'continue after the previous page',
  '--all': { help: 'show every row', conflicts: ['limit', 'cursor'] },
})

export async function readList<T>(
  call: Call,
  operation: CallableId,
  isWanted: (row: T) => boolean = () => true,
): Promise<Page<T>> {
  const { client, input, options } = call
  const { parts } = input
  const cursorField = cursorFieldOf(operation)
  if (cursorField === undefined) {
    const answer = await callWith<object>(client, operation, parts)
    const key = keyOf(answer)
    const rows = rowsOf<T>(answer, key).filter(isWanted)
    const onWire = key === undefined ? rows : { ...answer, [key]: rows }
    return { rows, onWire, noun: nounOf(key), next: undefined }
  }
  const { limit = limits.pageRowsDefault, cursor: firstCursor, all } = options as PageOptions
  const rows: T[] = []
  let answer: Record<string, unknown> = {}
  let cursor = firstCursor
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const size = all === true ? limits.pageRows : limit
    const query = { ...parts.query, limit: size, ...(cursor === undefined ? {} : { [cursorField]: cursor }) }
    answer = await callWith<Record<string, unknown>>(client, operation, { ...parts, query })
    rows.push(...rowsOf<T>(answer, keyOf(answer)).filter(isWanted))
    cursor = cursorOf(answer)
    if (cursor === undefined || (all !== true && rows.length >= limit)) break
  }
  const key = keyOf(answer)
  return {
    rows,
    onWire: { ...answer, [key ?? '']: rows },
    noun: nounOf(key),
    next: cursor === undefined ? undefined : `There are more: ${sameCommand(call.command)} --cursor ${cursor}`,
  }
}

/** The key of the only list in an answer. undefined: the answer itself is the list. */
function keyOf(answer: object): string | undefined {
  if (Array.isArray(answer)) return undefined
  return Object.entries(answer).find(([, value]) => Array.isArray(value))?.[0]
}

function rowsOf<T>(answer: object, key: string | undefined): readonly T[] {
  return (key === undefined ? answer : (answer as Record<string, unknown>)[key]) as readonly T[]
}

/** `apiKeys` → `API key`, `deliveries` → `delivery`. */
function nounOf(key = 'rows'): string {
  return key
    .replace(/ies$/, 'y')
    .replace(/s$/, '')
    .replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
    .replace(/^(api|ssh) /, (word) => word.toUpperCase())
}

function cursorOf(answer: Record<string, unknown>): string | undefined {
  const next = answer['nextCursor'] ?? answer['next_cursor'] ?? (answer['has_more'] === true ? answer['last_id'] : null)
  return (next ?? undefined) as string | undefined
}

/** The command line as typed, without the cursor and the idempotency key, which differ in the next call. */
export function sameCommand(command: Command): string {
  const words: string[] = [...command.args]
  for (let level: Command | null = command; level !== null; level = level.parent) words.unshift(level.name())
  for (const option of command.options) {
    const name = option.attributeName()
    if (
      command.getOptionValueSource(name) !== 'cli' ||
      name === 'cursor' ||
      name === 'idempotencyKey' ||
      option.long === undefined
    )
      continue
    const value: unknown = command.getOptionValue(name)
    words.push(option.long, ...(typeof value === 'boolean' ? [] : [value].flat().map(String)))
  }
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `"${word}"`)).join(' ')
}
