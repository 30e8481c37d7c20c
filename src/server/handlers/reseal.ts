/** Sealing all secrets with the current key over HTTP, for operators. */
import { ok } from '../../contract/result.ts'
import { resealPage, type ResealCursor } from '../../app/account/reseal.ts'
import { badCursor } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

export const resealHandlers = {
  resealSecrets: async (app, { actor, body }) => {
    const cursor = body.cursor === undefined ? undefined : readResealCursor(body.cursor)
    if (body.cursor !== undefined && cursor === undefined) return badCursor()
    const page = await resealPage(app, actor, { cursor, limit: body.limit })
    if (!page.ok) return page
    const { next, ...counts } = page.value
    const nextCursor = next === undefined ? null : Buffer.from(JSON.stringify(next)).toString('base64url')
    return ok({ ...counts, unreadable: [...counts.unreadable], nextCursor })
  },
} satisfies Partial<Handlers>

function readResealCursor(text: string): ResealCursor | undefined {
  try {
    const read: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    const isCursor = Array.isArray(read) && read.length > 0 && read.every((one) => typeof one === 'string')
    return isCursor ? (read as unknown as ResealCursor) : undefined
  } catch {
    return undefined
  }
}
