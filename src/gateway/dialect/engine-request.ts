/** The request that an engine gets for a chat or completion: the client's own members, less those written per engine. */
import type { Deployment } from '../catalog.ts'
import { writeChatBody, type JsonObject, type MessagesText } from './chat-body.ts'
import type { UpstreamRequest } from '../upstream/upstream-call.ts'

/** Usage in every event bills a cut stream to the token. */
const USAGE_IN_EVERY_EVENT = { include_usage: true, continuous_usage_stats: true }
const USAGE_AT_THE_END = { include_usage: true }

/** The names that engines know for an output limit. All are replaced by the limit that the price bound was made with. */
const limitNames = new Set(['max_tokens', 'max_completion_tokens', 'n_predict', 'n_cmpl', 'best_of'])

/** A request for text that engines know. Every dialect is translated into one of the two. */
export interface EngineForm {
  readonly path: string
  /** The interface takes a number of log probabilities; engines take a flag and `top_logprobs`. */
  readonly hasLogprobsFlag: boolean
}
export const chatForm: EngineForm = { path: '/v1/chat/completions', hasLogprobsFlag: true }
export const completionForm: EngineForm = { path: '/v1/completions', hasLogprobsFlag: false }

export interface EngineRequestOptions {
  readonly form: EngineForm
  readonly body: JsonObject
  readonly messages: MessagesText | undefined
  readonly stream: boolean
  /** null: the context is the limit. */
  readonly maxOutputTokens: number | null
  readonly extraHeaders: string
  readonly hints?: JsonObject | undefined
}

export function makeEngineRequest(options: EngineRequestOptions): (deployment: Deployment) => UpstreamRequest {
  const { form, body, messages } = options
  const usesNewName = typeof body['max_completion_tokens'] === 'number'
  return (deployment) => {
    const sent: Record<string, unknown> = {}
    for (const name in body) {
      if (limitNames.has(name) || (name === 'messages' && messages !== undefined)) continue
      sent[name] = body[name]
    }
    if (form.hasLogprobsFlag) setLogprobs(sent, body)
    setLimit(sent, deployment, usesNewName, options.maxOutputTokens)
    if (isKnownEngine(deployment)) Object.assign(sent, options.hints)
    Object.assign(sent, deployment.members)
    sent['model'] = deployment.upstreamModel
    if (options.stream) sent['stream_options'] = streamOptionsFor(deployment)
    return {
      path: form.path,
      extraHeaders: options.extraHeaders,
      contentType: 'application/json',
      body: messages === undefined ? [Buffer.from(JSON.stringify(sent))] : writeChatBody(sent, messages),
    }
  }
}

/** Only engines known to support it are asked for usage in every event: elsewhere an unknown option may be an error. */
function streamOptionsFor(deployment: Deployment): JsonObject {
  return isKnownEngine(deployment) ? USAGE_IN_EVERY_EVENT : USAGE_AT_THE_END
}

function isKnownEngine({ protocol, readsMetrics }: Deployment): boolean {
  return protocol === 'embedded' || readsMetrics
}

/** Some hosted models know only the newer name; their clients use it. */
function setLimit(
  sent: Record<string, unknown>,
  deployment: Deployment,
  usesNewName: boolean,
  limit: number | null,
): void {
  if (limit === null) return
  const isHosted = deployment.authorization !== undefined && !deployment.readsMetrics
  sent[isHosted && usesNewName ? 'max_completion_tokens' : 'max_tokens'] = limit
}

function setLogprobs(sent: Record<string, unknown>, { logprobs, top_logprobs: top }: JsonObject): void {
  if (typeof logprobs !== 'number') return
  sent['logprobs'] = true
  sent['top_logprobs'] = top ?? Math.min(20, logprobs)
}
