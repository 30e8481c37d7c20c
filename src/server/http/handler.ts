/** The type of a handler: the contract's types on both sides, a `Result` between. */
import type { Actor, App } from '../../app/app.ts'
import type { Result } from '../../contract/result.ts'
import type { Api, OperationId, OperationsAnswering } from '../../contract/api.ts'
import type { BodyOf, ParamsOf, QueryOf, ResponseOf } from '../../contract/endpoint.ts'
import type { FormFile, FormOptions } from './multipart.ts'

export interface HandlerRequest<Op extends OperationId> {
  readonly operation: Op
  readonly params: ParamsOf<Api[Op]>
  readonly query: QueryOf<Api[Op]>
  readonly body: BodyOf<Api[Op]>
  /** Public operations get an actor without account and scopes. */
  readonly actor: Actor
  /** Models that the key may call. null: all. */
  readonly allowedModels: readonly string[] | null
  readonly requestId: string
  /** The address that the client used: `https://berth.example.com`. undefined: unknown. */
  readonly baseUrl?: string | undefined
  readonly idempotencyKey: string | undefined
  /** The IP address of the client. Absent: the handler is not called over HTTP. */
  readonly address?: string
  /** Sets a header of the answer. Absent: the handler is not called over HTTP. */
  readonly setHeader?: (name: string, value: string) => void
}

/** Operations that take a form. */
type FormId = 'uploadFile'

export interface FormRequest<Op extends OperationId> extends HandlerRequest<Op> {
  /** Reads the form to its end. Rejected fields are answered with their errors. */
  readonly readUpload: <T>(
    options: FormOptions,
    file: { readonly take: (file: FormFile) => Promise<Result<T>>; readonly drop: (stored: T) => Promise<void> },
  ) => Promise<Result<{ readonly body: BodyOf<Api[Op]>; readonly file: T }>>
}

/** A file that is sent as it is read. */
export interface Download {
  readonly name: string
  /** undefined: unknown until all was read. */
  readonly bytes: number | undefined
  readonly content: AsyncIterable<Buffer>
}

export type Handler<Op extends OperationId> = (
  app: App,
  request: Op extends FormId ? FormRequest<Op> : HandlerRequest<Op>,
) => Promise<Result<ResponseOf<Api[Op]>>>

/** A missing handler does not compile. Operations with other kinds of answers have their tables in answer.ts. */
export type Handlers = { [Op in OperationsAnswering<'json' | 'html' | 'csv'>]: Handler<Op> }
