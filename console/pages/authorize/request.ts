/** The parameters with which a client opens the page (OAuth 2.1, section 4.1.1). */
import type { Scope } from '../../../src/contract/endpoint.ts'
import { agentScopes } from '../../../src/contract/oauth.ts'
import type { Body } from '../../form/field.ts'

export interface OauthRequest {
  readonly body: Body<'findOauthClient'>
  /** The scopes that the client asks for, of those that agents may have. */
  readonly scopes: readonly Scope[]
}

/** A text tells what is wrong. The answer goes nowhere then: the address in the request is not checked yet. */
export function readRequest(search: string): OauthRequest | string {
  const parameters = new URLSearchParams(search)
  const clientId = parameters.get('client_id')
  const redirectUri = parameters.get('redirect_uri')
  const codeChallenge = parameters.get('code_challenge')
  const state = parameters.get('state')
  if (clientId === null || redirectUri === null)
    return 'This link is not complete. Start again from the agent that you want to sign in.'
  if (
    parameters.get('response_type') !== 'code' ||
    codeChallenge === null ||
    parameters.get('code_challenge_method') !== 'S256'
  )
    return 'This agent asks in a way that is not supported. It needs response_type=code and PKCE with S256.'
  const wishes = new Set((parameters.get('scope') ?? '').split(' '))
  const scopes = agentScopes.filter((scope) => wishes.has(scope))
  return {
    body: { clientId, redirectUri, codeChallenge, ...(state === null ? {} : { state }) },
    scopes: scopes.length === 0 ? agentScopes : scopes,
  }
}
