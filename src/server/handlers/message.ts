/** Operations of the Messages API besides messages, which the gateway answers itself. */
import { ok } from '../../contract/result.ts'
import { readMessage } from '../../gateway/dialect/message.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Handlers } from '../http/handler.ts'

export function messageHandlers(gateway: Pick<Gateway, 'countTokens'>): Pick<Handlers, 'countMessageTokens'> {
  return {
    countMessageTokens: async (_app, { actor: { accountId }, allowedModels, body, setHeader }) => {
      const request = readMessage(body)
      if (!request.ok) return request
      const counted = await gateway.countTokens({ accountId, allowedModels }, request.value)
      if (!counted.ok) return counted
      setHeader?.('X-Berth-Token-Count', counted.value.isExact ? 'exact' : 'estimate')
      return ok({ input_tokens: counted.value.tokens })
    },
  }
}
