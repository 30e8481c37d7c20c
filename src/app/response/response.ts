/**
 * Stored responses: the input, the output and the pieces of one turn, sealed under a key of their own. A conversation is
 * read back to its first response, so that a turn stores only what it adds.
 */
import { addMs, DAY_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { newContentKey, openPiece, sealPiece } from '../../base/sealed-bytes.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import {
  findResponse,
  insertResponse,
  listConversation,
  readResponses,
  type StoredResponse,
} from '../../store/response/response.ts'
import type { App } from '../app.ts'

export type ResponseApp = Pick<App, 'database' | 'clock' | 'vault'>

type Item = Readonly<Record<string, unknown>>

/** The content of one turn of a conversation. */
export interface ResponseContent {
  /** The response as JSON. */
  readonly text: string
  /** The input items, each with an id. */
  readonly input: readonly Item[]
  /** The lengths of the pieces in which the answer was streamed, so that it can be replayed alike. */
  readonly pieces: unknown
}

export interface NewResponse extends ResponseContent {
  readonly id: string
  readonly previousId: string | null
}

const BYTES_PER_MB = 1_048_576
/** The number of the only piece: each response is sealed as one piece, under its own key. */
const ONLY_PIECE = 0

export async function saveResponse(
  { database, clock, vault }: ResponseApp,
  accountId: string,
  { id, previousId, text, input, pieces }: NewResponse,
  days: number,
): Promise<void> {
  const key = newContentKey()
  const content: ResponseContent = { text, pieces, input: input.map((item, at) => withId(item, id, at)) }
  const createdAt = clock.now()
  await insertResponse(database.db, {
    id,
    accountId,
    previousId,
    keySealed: vault.seal(key),
    sealed: sealPiece(key, ONLY_PIECE, Buffer.from(JSON.stringify(content))),
    createdAt,
    expiresAt: addMs(createdAt, days * DAY_MS),
  })
}

export async function readResponse(
  { database, clock, vault }: ResponseApp,
  accountId: string,
  id: string,
): Promise<Result<ResponseContent>> {
  const row = await findResponse(database.db, accountId, id, clock.now())
  return row === undefined ? fail('response_not_found') : ok(openContent(vault, row))
}

/** The turns of the conversation up to this response, the first one first. */
export async function readConversation(
  { database, clock, vault }: ResponseApp,
  accountId: string,
  id: string,
): Promise<Result<readonly ResponseContent[]>> {
  const { conversationResponses: maxResponses, conversationBytes: maxBytes } = limits
  const links = await listConversation(database.db, { accountId, id, now: clock.now(), limit: maxResponses + 1 })
  if (links.length > maxResponses) return fail('conversation_too_long', { max: `${maxResponses} responses` })
  // A response in between was deleted, or the conversation belongs to another account.
  if (links.at(-1)?.previous_id !== null) return fail('response_not_found')
  if (links.reduce((sum, link) => sum + link.size_bytes, 0) > maxBytes) {
    return fail('conversation_too_long', { max: `${maxBytes / BYTES_PER_MB} MiB` })
  }
  const ids = links.map((link) => link.id).toReversed()
  const rows = new Map((await readResponses(database.db, accountId, ids)).map((row) => [row.id, row]))
  const turns: ResponseContent[] = []
  for (const one of ids) {
    const row = rows.get(one)
    if (row === undefined) return fail('response_not_found')
    turns.push(openContent(vault, row))
  }
  return ok(turns)
}

export function outputOf({ text }: ResponseContent): readonly Item[] {
  return (JSON.parse(text) as { readonly output: readonly Item[] }).output
}

/** Finds an item by its id, which contains the id of its response. */
export async function findItem(app: ResponseApp, accountId: string, itemId: string): Promise<Result<Item>> {
  const [, seed] = /^[a-z]+_([0-9a-f]{32})i?\d+$/.exec(itemId) ?? []
  const response = seed === undefined ? undefined : await readResponse(app, accountId, `resp_${seed}`)
  if (response?.ok !== true) return fail('response_not_found')
  const item = [...outputOf(response.value), ...response.value.input].find((one) => one['id'] === itemId)
  return item === undefined ? fail('response_not_found') : ok(item)
}

const idPrefixes: Readonly<Record<string, string>> = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  function_call_output: 'fco',
  custom_tool_call: 'ctc',
  custom_tool_call_output: 'ctco',
}

/** Adds an id, unless the item is replayed and has one already. */
function withId(item: Item, responseId: string, at: number): Item {
  const type = typeof item['type'] === 'string' ? item['type'] : 'message'
  const id = item['id'] ?? `${idPrefixes[type] ?? 'item'}_${responseId.slice('resp_'.length)}i${at}`
  return { ...item, type, id }
}

function openContent(vault: App['vault'], row: StoredResponse): ResponseContent {
  const bytes = openPiece(vault.open(row.key_sealed), ONLY_PIECE, row.sealed)
  return JSON.parse(bytes.toString()) as ResponseContent
}
