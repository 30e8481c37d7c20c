/**
 * A dialect is a protocol in which clients ask for text. It reads the client's body into a request that engines know, and
 * writes the engine's answer in the client's form: chats and completions as the engine wrote it (`rewritten-answer.ts`),
 * other protocols from parsed deltas (`translated-answer.ts`). Everything between (admission, routing, money, records) is
 * the same for all dialects, so a new one is its files here, its contract, and a line in
 * `server/inference/answer-inference.ts`. Engines are always asked for usage, whatever the client asked for.
 */
import type { Result } from '../../contract/result.ts'
import type { Caller } from '../call.ts'
import type { AnswerForm } from './answer-form.ts'
import type { JsonObject, MessagesText } from './chat-body.ts'
import type { EngineForm } from './engine-request.ts'

export interface Dialect {
  /** The operation as recorded and shown in the account's log. */
  readonly operation: string
  /** A body that the contract's schema accepted, as the client wrote it. Fails if engines cannot honor it. */
  readonly read: (body: JsonObject, caller: Caller) => Result<EngineBody> | Promise<Result<EngineBody>>
}

/** A client's request in a form that engines know. */
export interface EngineBody {
  readonly form: EngineForm
  /** Has `model`, and the parameters under the names that the form gives them. */
  readonly body: JsonObject
  /** undefined: a completion, which has a prompt in its body. */
  readonly messages: MessagesText | undefined
  /** The size of a translated request: of the chat, with all of the prompt. Absent: the engine gets the client's own. */
  readonly bytes?: number
  /** Belongs to the request: an answer may depend on what the client sent. */
  readonly answer: AnswerForm
  /** Requests with the same session go to the same engine if possible. `X-Session-Id` wins. */
  readonly session?: string | undefined
  /** Parameters that only another vendor's service could honor. The client gets their names in `X-Berth-Ignored`. */
  readonly ignored?: readonly string[]
  /** Members for engines that are known to take them, such as variables of the chat template. */
  readonly hints?: JsonObject
  /** Estimated high. Given: the output limit is lowered to what the context leaves. */
  readonly promptTokens?: number
}
