/** What a handler is: the contract's types on both sides, a `Result` between. */
import type { Actor, App } from '../app/app.ts'
import type { Result } from '../base/result.ts'
import type { Api, OperationId } from '../contract/api.ts'
import type { inferenceEndpoints } from '../contract/inference.ts'
import type { mediaEndpoints } from '../contract/media.ts'
import type { BodyOf, ParamsOf, QueryOf, ResponseOf } from '../contract/endpoint.ts'

export interface HandlerRequest<Op extends OperationId> {
  readonly operation: Op
  readonly params: ParamsOf<Api[Op]>
  readonly query: QueryOf<Api[Op]>
  readonly body: BodyOf<Api[Op]>
  /** Public operations are handed an actor without account and scopes. */
  readonly actor: Actor
  readonly requestId: string
  /** As the caller addressed the server: `https://berth.example.com`. undefined: it did not say. */
  readonly baseUrl?: string | undefined
  readonly idempotencyKey: string | undefined
}

export type Handler<Op extends OperationId> = (
  app: App,
  request: HandlerRequest<Op>,
) => Promise<Result<ResponseOf<Api[Op]>>>

/** A missing handler does not compile. Streams (events, logs) and models are answered in their own ways. */
export type Handlers = { [Op in Exclude<OperationId, StreamOperation | ModelOperation>]: Handler<Op> }

type StreamOperation = 'followEvents' | 'followAllEvents' | 'getRentalLogs'

/** What the gateway answers, see inference-door.ts. */
type ModelOperation = keyof typeof inferenceEndpoints | keyof typeof mediaEndpoints
