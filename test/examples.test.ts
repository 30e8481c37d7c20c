/** Every operation is documented with a request and a response example that its own schemas accept. */
import { describe, expect, test } from 'vitest'
import { api } from '../src/contract/api.ts'
import { contentTypeOf, type Endpoint } from '../src/contract/endpoint.ts'
import { describeApi } from '../src/contract/openapi/openapi.ts'

interface Content {
  readonly content: Readonly<Record<string, { readonly example?: unknown }>>
}
interface Described {
  readonly operationId: string
  readonly requestBody?: Content
  readonly responses: { readonly 200: Content }
}

const { paths } = describeApi('all') as { paths: Record<string, Record<string, Described>> }
const described = new Map(
  Object.values(paths)
    .flatMap((path) => Object.values(path))
    .map((operation) => [operation.operationId, operation]),
)

describe.each(Object.entries<Endpoint>(api))('%s', (id, endpoint) => {
  const operation = described.get(id)

  test('has an example request', () => {
    const [request] = Object.values(operation?.requestBody?.content ?? {})
    const example = request?.example
    expect(example !== undefined).toBe(endpoint.body !== undefined)
    expect(endpoint.body?.safeParse(example).error?.issues ?? []).toEqual([])
  })

  test('has an example response', () => {
    // Pages, logs and audio have no JSON value.
    if (contentTypeOf(endpoint) !== 'application/json') return
    const example = operation?.responses[200].content['application/json']?.example
    expect(example).toBeDefined()
    expect(endpoint.response.safeParse(example).error?.issues ?? []).toEqual([])
  })
})
