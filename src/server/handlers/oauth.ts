/** Agents that sign in with OAuth, as the page of the console decides about them. */
import { approveOauthClient, denyOauthClient, findOauthClient } from '../../app/person/oauth-grant.ts'
import { ok } from '../../contract/result.ts'
import type { Handlers } from '../http/handler.ts'

export const oauthHandlers = {
  findOauthClient: async (app, { actor, body }) => findOauthClient(app, actor, body),

  approveOauthClient: async (app, { actor, body }) => {
    const { accountId, scopes, days, ...request } = body
    const target = await approveOauthClient(app, actor, request, { accountId, scopes, days })
    return target.ok ? ok({ redirectUrl: target.value }) : target
  },

  denyOauthClient: async (app, { body }) => {
    const target = await denyOauthClient(app, body)
    return target.ok ? ok({ redirectUrl: target.value }) : target
  },
} satisfies Partial<Handlers>
