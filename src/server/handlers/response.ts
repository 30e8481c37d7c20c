/** Stored responses, and counts of tokens. Responses themselves come from the gateway. */
import type { Actor, App } from '../../app/app.ts'
import { outputOf, readConversation, readResponse } from '../../app/response/response.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { readResponse as readRequest, type ResponsePorts } from '../../gateway/dialect/response.ts'
import { replayResponse } from '../../gateway/dialect/response-replay.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { deleteResponse } from '../../store/response/response.ts'
import type { Handlers } from '../http/handler.ts'
import { writtenEvents, writtenJson } from '../http/json-answer.ts'

type ResponseHandlers = Pick<Handlers, 'countResponseTokens' | 'getResponse' | 'deleteResponse' | 'listResponseInput'>

export function responseHandlers(gateway: Pick<Gateway, 'countTokens'>, ports: ResponsePorts): ResponseHandlers {
  return {
    countResponseTokens: async (_app, { actor: { accountId }, allowedModels, body, setHeader }) => {
      const request = await readRequest(ports, body, { accountId, storesResponses: false })
      if (!request.ok) return request
      const counted = await gateway.countTokens({ accountId, allowedModels }, request.value)
      if (!counted.ok) return counted
      setHeader?.('X-Berth-Token-Count', counted.value.isExact ? 'exact' : 'estimate')
      return ok({ object: 'response.input_tokens' as const, input_tokens: counted.value.tokens })
    },

    getResponse: async (app, { actor, params: { id }, query }) => {
      const stored = await readResponse(app, actor.accountId, id)
      if (!stored.ok) return stored
      const { text, pieces } = stored.value
      if (query.stream !== true) return ok(writtenJson(Buffer.from(text)))
      const events = replayResponse({ id, text, pieces: pieces as Parameters<typeof replayResponse>[0]['pieces'] })
      // Numbers begin at 0.
      const after = query.starting_after ?? -1
      return ok(writtenEvents(events.slice(after + 1).join('')))
    },

    deleteResponse: async ({ database, clock }, { actor, params: { id } }) => {
      const isDeleted = await deleteResponse(database.db, actor.accountId, id, clock.now())
      return isDeleted ? ok({ id, object: 'response' as const, deleted: true as const }) : fail('response_not_found')
    },

    listResponseInput: async (app, { actor, params: { id }, query }) => {
      const items = await readInputItems(app, actor, id)
      if (!items.ok) return items
      const ordered = query.order === 'asc' ? items.value : items.value.toReversed()
      const from = query.after === undefined ? 0 : ordered.findIndex((item) => item.id === query.after) + 1
      if (query.after !== undefined && from === 0) return fail('response_not_found', { field: ['after'] })
      const data = ordered.slice(from, from + query.limit)
      return ok({
        object: 'list' as const,
        data,
        first_id: data[0]?.id ?? null,
        last_id: data.at(-1)?.id ?? null,
        has_more: from + data.length < ordered.length,
      })
    },
  }
}

type InputItem = ResponseOf<Api['listResponseInput']>['data'][number]

async function readInputItems(app: App, { accountId }: Actor, id: string): Promise<Result<InputItem[]>> {
  const turns = await readConversation(app, accountId, id)
  if (!turns.ok) return turns
  const items = turns.value.flatMap((turn, at) => [
    ...turn.input,
    ...(at === turns.value.length - 1 ? [] : outputOf(turn)),
  ])
  return ok(items.map((item) => ({ ...item, ...contentOf(item) }) as InputItem))
}

/** Clients expect a list of parts. */
function contentOf({ role, content }: Readonly<Record<string, unknown>>): object {
  if (typeof content !== 'string') return {}
  return { content: [{ type: role === 'assistant' ? 'output_text' : 'input_text', text: content }] }
}
