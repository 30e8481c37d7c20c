/** Calls an operation of the contract for a tool, with the access check, the validation and the codecs of HTTP. */
import { api, type Api, type OperationId, type OperationsAnswering } from '../../contract/api.ts'
import type { BodyInputOf, Endpoint, ParamsOf, QueryInputOf, ReplyOf } from '../../contract/endpoint.ts'
import { fail, type Failure, type Result } from '../../contract/result.ts'
import type { InputIssue } from '../../contract/error-form.ts'
import { writerOf } from '../../contract/wire.ts'
import type { App } from '../../app/app.ts'
import { mayCall, missingScope } from '../http/access.ts'
import type { Authenticated } from '../http/authenticate.ts'
import type { Handlers, HandlerRequest } from '../http/handler.ts'
import { WrittenJson } from '../http/json-answer.ts'
import { validate } from '../http/validation.ts'

export interface OperationInput<Op extends OperationId> {
  readonly params?: Partial<Record<keyof ParamsOf<Api[Op]>, string>>
  readonly query?: QueryInputOf<Api[Op]>
  readonly body?: BodyInputOf<Api[Op]>
  readonly idempotencyKey?: string
}

/** The answer is in the form of the wire. */
export type CallOperation = <Op extends OperationsAnswering<'json'>>(
  operation: Op,
  input?: OperationInput<Op>,
) => Promise<Result<ReplyOf<Api[Op]>>>

export interface OperationCaller {
  readonly app: App
  readonly handlers: Handlers
  readonly caller: Authenticated
  readonly requestId: string
}

export function makeCallOperation({ app, handlers, caller, requestId }: OperationCaller): CallOperation {
  return async (operation, input = {}) => {
    const endpoint: Endpoint = api[operation]
    if (!mayCall(endpoint.access, caller)) return missingScope(endpoint.access)
    const [params, query, body] = [
      validate(endpoint.params, input.params),
      validate(endpoint.query, endpoint.query === undefined ? undefined : (input.query ?? {})),
      validate(endpoint.body, input.body),
    ]
    for (const part of [params, query, body]) {
      if (!part.ok) return invalidInput(part.issues)
    }
    const handler = handlers[operation] as (app: App, request: unknown) => Promise<Result<unknown>>
    const request: Omit<HandlerRequest<OperationId>, 'operation' | 'params' | 'query' | 'body'> & object = {
      actor: caller,
      allowedModels: caller.key.allowed_models,
      requestId,
      idempotencyKey: input.idempotencyKey,
    }
    const values = { params, query, body } as Record<string, { value?: unknown }>
    const result = await handler(app, {
      ...request,
      operation,
      params: values['params']?.value,
      query: values['query']?.value,
      body: values['body']?.value,
    })
    if (!result.ok) return result
    const { value } = result
    const written = value instanceof WrittenJson ? JSON.parse(value.bytes.toString()) : writerOf(operation)(value)
    return { ok: true, value: written as never }
  }
}

export function invalidInput(issues: readonly InputIssue[]): Failure {
  const plain = issues.map(({ code, path, message }) => ({ code, path, message }))
  return { ...fail('bad_request'), message: 'Input validation failed', issues: plain }
}
