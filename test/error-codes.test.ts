/**
 * `error.code`, on which agents branch: the text of OpenAI in each operation of its API, the status as a number in the
 * operations of the published interface.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { api, type OperationId } from '../src/contract/api.ts'
import { inferenceExamples } from '../src/contract/openapi/example-body.ts'
import { errorFormOf, openaiForm, v1Form } from '../src/contract/error-form.ts'
import type { Endpoint } from '../src/contract/endpoint.ts'
import { operations as published } from './fixtures/interface.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type TestServer } from './harness/server.ts'

let server: TestServer
let models: Readonly<Record<'chat' | 'embedding' | 'image' | 'speech' | 'rerank', TestModel>>
let customer: Awaited<ReturnType<TestServer['account']>>
let poor: Awaited<ReturnType<TestServer['account']>>

beforeAll(async () => {
  server = await testServer({ runLoops: false })
  const dear = { pixelStepUsdPerMillion: '0.1', characterUsdPerMillion: '100' }
  models = {
    chat: await serveModel(server, { name: 'chat' }),
    embedding: await serveModel(server, { name: 'embedding', model: { kind: 'embedding' } }),
    rerank: await serveModel(server, { name: 'rerank', model: { kind: 'rerank' } }),
    image: await serveModel(server, {
      name: 'image',
      model: { kind: 'image', ...dear },
      deployment: { protocol: 'images' },
    }),
    speech: await serveModel(server, {
      name: 'speech',
      model: { kind: 'speech', ...dear },
      deployment: { protocol: 'speech' },
    }),
  }
  customer = await server.account({ usd: '10' })
  poor = await server.account()
})
afterAll(async () => {
  await server.close()
  await Promise.all(Object.values(models).map(({ upstream }) => upstream.close()))
})

/** Operations that ask for work, each with the kind of its model. An operation that is added here is held to all cases. */
const doors = {
  createCompletion: 'chat',
  createEmbedding: 'embedding',
  rerank: 'rerank',
  rerankBySecondPath: 'rerank',
  rerankByThirdPath: 'rerank',
  generateImageBySecondPath: 'image',
  createSpeech: 'speech',
} as const satisfies Partial<Record<OperationId, keyof typeof models>>
type Door = keyof typeof doors

/** Of the published interface: numbers, to the letter. */
const numbered = {
  createChatCompletion: 'chat',
  generateImage: 'image',
  generateAudio: 'speech',
} as const satisfies Partial<Record<OperationId, keyof typeof models>>

function bodyOf(operation: keyof typeof inferenceExamples, model: string): object {
  const { model_name: _, ...body } = inferenceExamples[operation] as Record<string, unknown>
  return operation === 'generateImage' ? { ...body, model_name: model } : { ...body, model }
}

interface Failure {
  readonly status: number
  readonly code: unknown
  readonly reason: unknown
}

async function failureOf(operation: Door | keyof typeof numbered, key: string, model: string): Promise<Failure> {
  const endpoint: Endpoint = api[operation]
  const { status, body } = await server.as(key)(endpoint.method, endpoint.path, bodyOf(operation, model))
  // The numbers stay beside it.
  expect([body.code, body.error_code]).toEqual([status, status])
  return { status, code: body.error.code, reason: body.reason }
}

async function busyKey(): Promise<string> {
  const { body } = await customer.call('POST', '/v2/api-keys', {
    name: 'one request per minute',
    scopes: ['inference'],
    requestsPerMinute: 1,
  })
  await server.as(body.key)('GET', '/v1/models')
  return body.key as string
}

describe.each(Object.entries(doors) as Array<[Door, keyof typeof models]>)('%s names', (operation, kind) => {
  const nameOf = (): string => models[kind].name

  test('an unknown model model_not_found', async () => {
    expect(await failureOf(operation, customer.key, 'nobody/nothing')).toMatchObject({
      status: 400,
      code: 'model_not_found',
    })
  })

  test('too little money insufficient_quota', async () => {
    expect(await failureOf(operation, poor.key, nameOf())).toEqual({
      status: 402,
      code: 'insufficient_quota',
      reason: 'insufficient_balance',
    })
  })

  test('a wrong key invalid_api_key', async () => {
    expect(await failureOf(operation, `${customer.key}x`, nameOf())).toMatchObject({
      status: 401,
      code: 'invalid_api_key',
    })
  })

  test('too many requests rate_limit_exceeded', async () => {
    expect(await failureOf(operation, await busyKey(), nameOf())).toEqual({
      status: 429,
      code: 'rate_limit_exceeded',
      reason: 'rate_limited',
    })
  })

  test('a failure of the engine server_error', async () => {
    models[kind].upstream.behaviour.fault = { kind: 'status', status: 500, body: 'broken' }
    expect(await failureOf(operation, customer.key, nameOf())).toMatchObject({ status: 503, code: 'server_error' })
    models[kind].upstream.behaviour.fault = undefined
  })
})

test('a prompt that does not fit is context_length_exceeded, in completions and in chats', async () => {
  const overflow = { kind: 'status', status: 400, body: '{"error":{"code":"context_length_exceeded"}}' } as const
  for (const operation of ['createCompletion', 'createChatCompletion'] as const) {
    models.chat.upstream.behaviour.faultsOnce.push(overflow)
    const failure = await failureOf(operation, customer.key, 'chat')
    expect(failure).toEqual({ status: 400, code: 'context_length_exceeded', reason: 'context_length_exceeded' })
  }
})

test.each(Object.entries(numbered) as Array<[keyof typeof numbered, keyof typeof models]>)(
  '%s of the published interface keeps numbers, and has the text in reason',
  async (operation, kind) => {
    const { name } = models[kind]
    expect(await failureOf(operation, customer.key, 'nobody/nothing')).toEqual({
      status: 400,
      code: 400,
      reason: 'model_not_found',
    })
    expect(await failureOf(operation, poor.key, name)).toMatchObject({ code: 402, reason: 'insufficient_balance' })
    expect(await failureOf(operation, `${customer.key}x`, name)).toMatchObject({ code: 401 })
    expect(await failureOf(operation, await busyKey(), name)).toMatchObject({ code: 429, reason: 'rate_limited' })
  },
)

test('every v1 operation has numbers if it is published, and else a form with texts', () => {
  const isPublished = ({ method, path }: Endpoint): boolean =>
    Object.values(published).some((one) => one.method === method && one.path === path)
  const wrong = (Object.entries(api) as Array<[OperationId, Endpoint]>).filter(([, endpoint]) => {
    if (endpoint.family !== 'v1') return false
    if (isPublished(endpoint)) return errorFormOf(endpoint) !== v1Form
    return endpoint.tag === 'Inference' && errorFormOf(endpoint) === v1Form
  })
  expect(wrong.map(([operation]) => operation)).toEqual([])
  const openai = Object.entries(doors).filter(([operation]) => errorFormOf(api[operation as Door]) !== openaiForm)
  expect(openai).toEqual([])
})
