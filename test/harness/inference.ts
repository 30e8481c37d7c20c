/** A model on sale at a test server, with a simulated upstream and prices that make costs easy to compute. */
import { startModelServer, type Behaviour, type ModelServer } from '../sim/model-server.ts'
import type { TestServer } from './server.ts'
import { waitFor } from './wait.ts'

export interface TestModel {
  readonly name: string
  readonly upstream: ModelServer
  readonly deploymentId: string
}

/** One nano-dollar per input token, two per output token. */
export const testPrices = { inputUsdPerMillion: '0.001', outputUsdPerMillion: '0.002' }
export const NANO_PER_INPUT = 1
export const NANO_PER_OUTPUT = 2

export async function serveModel(
  server: Pick<TestServer, 'operator'>,
  options: {
    name?: string
    model?: Readonly<Record<string, unknown>>
    deployment?: Readonly<Record<string, unknown>>
    behaviour?: Partial<Behaviour>
  } = {},
): Promise<TestModel> {
  const name = options.name ?? 'test/model'
  const upstream = await startModelServer({ behaviour: options.behaviour ?? {} })
  await created(server, '/v2/operator/models', {
    name,
    kind: 'chat',
    contextTokens: 8_192,
    maxOutputTokens: 4_096,
    ...testPrices,
    ...options.model,
  })
  const deploymentId = await addDeployment(server, name, upstream, options.deployment)
  return { name, upstream, deploymentId }
}

export async function addDeployment(
  server: Pick<TestServer, 'operator'>,
  model: string,
  upstream: ModelServer,
  more: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const url = `http://${upstream.host}:${upstream.port}`
  const { id } = await created(server, '/v2/operator/deployments', { model, url, upstreamModel: 'their-name', ...more })
  // The gateway learns of it shortly after the commit.
  await waitFor(`deployment ${String(id)} to be served`, async () => {
    const { body } = await server.operator('GET', '/v2/operator/models')
    const models = body.models as Array<{ deployments: Array<{ id: string; health: object | null }> }>
    return models.some(({ deployments }) => deployments.some((one) => one.id === id && one.health !== null))
  })
  return String(id)
}

async function created(
  server: Pick<TestServer, 'operator'>,
  path: string,
  body: unknown,
): Promise<Record<string, unknown>> {
  const reply = await server.operator('POST', path, body)
  if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${JSON.stringify(reply.body)}`)
  return reply.body as Record<string, unknown>
}
