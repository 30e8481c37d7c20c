/** Storage of responses for the gateway, which has no database. During an outage each call fails at once. */
import { findItem, outputOf, readConversation, saveResponse } from '../../app/response/response.ts'
import type { App } from '../../app/app.ts'
import { SECOND_MS } from '../../base/instant.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { ResponsePorts } from '../../gateway/dialect/response.ts'
import { isOutage, probeDatabase } from '../../store/platform/outage.ts'

export function makeResponseStorage(app: App, days: number): ResponsePorts {
  const { database, clock, vault } = app
  return {
    clock,
    sealReasoning: (accountId, text) => vault.seal(JSON.stringify({ reasoning: text, accountId })),
    openReasoning: (accountId, sealed) => {
      const opened = openSealed(vault, sealed)
      return opened?.accountId === accountId && typeof opened.reasoning === 'string' ? opened.reasoning : undefined
    },
    checkStorage: () =>
      unlessOutage(async () => {
        await probeDatabase(database.db)
        return ok(undefined)
      }),
    readConversation: (accountId, id) =>
      unlessOutage(async () => {
        const turns = await readConversation(app, accountId, id)
        if (!turns.ok) return atField(turns, 'previous_response_id')
        return ok(turns.value.flatMap((turn) => [...turn.input, ...outputOf(turn)]))
      }),
    findItem: (accountId, itemId) => unlessOutage(() => findItem(app, accountId, itemId)),
    save: async (accountId, response) => {
      try {
        await saveResponse(app, accountId, response, days)
        return true
      } catch (error) {
        app.warn?.(error, `could not store ${response.id}`)
        return false
      }
    },
  }
}

/** undefined: the text was changed, or sealed by another installation. */
function openSealed(vault: App['vault'], sealed: string): { accountId?: unknown; reasoning?: unknown } | undefined {
  try {
    return JSON.parse(vault.open(sealed)) as { accountId?: unknown; reasoning?: unknown }
  } catch {
    return undefined
  }
}

function atField(failure: Failure, field: string): Failure {
  return { ...failure, issues: [{ code: failure.reason, path: [field], message: failure.message }] }
}

async function unlessOutage<T>(work: () => Promise<Result<T>>): Promise<Result<T>> {
  try {
    return await work()
  } catch (error) {
    if (isOutage(error)) return fail('database_unavailable', { retryAfterMs: SECOND_MS })
    throw error
  }
}
