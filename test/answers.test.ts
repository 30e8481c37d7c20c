/**
 * Every GET operation, after objects were created with the least input, and with rows as older versions have stored them:
 * without fields that have defaults now. An answer is exactly what the contract, and so the OpenAPI description, says.
 */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { api, type OperationId } from '../src/contract/api.ts'
import { scopes, type Endpoint } from '../src/contract/endpoint.ts'
import { examples, makeOwned, type Owned } from './harness/examples.ts'
import { startJourney, succeed, type Journey } from './harness/journey.ts'
import { personHeaders } from './harness/people.ts'
import { send } from './harness/send.ts'

const reading = (Object.entries(api) as Array<[OperationId, Endpoint]>).filter(
  ([, { method, answers }]) => method === 'GET' && answers === 'json',
)
/** What a test server does not have. */
const lacks = ['simulated_machine', 'cluster_not_found', 'provider_not_found', 'model_not_found']

let journey: Journey
let its: Owned
let ownerKey: string
let session: Readonly<Record<string, string>>
beforeAll(async () => {
  journey = await startJourney({ env: { BERTH_TRUST_PROXY: '1', BERTH_APPS_DOMAIN: 'apps.example.test' } })
  const customer = scopes.filter((scope) => scope !== 'operator')
  const owner = await journey.account({ usd: '5000', scopes: customer, platformFeePercentage: 10 })
  ownerKey = owner.key
  session = await personHeaders(journey.app, owner)
  its = await makeOwned(journey, owner)
  await succeed(owner.call, 'POST', '/v2/templates', { name: 'Least' })
  await storeWithoutDefaults()
})
afterAll(() => journey.close())

async function storeWithoutDefaults(): Promise<void> {
  const { db } = journey.app.database
  const template = { ports: [{ port: 8888, protocol: 'http' }], params: [{ name: 'A' }], restart: { policy: 'always' } }
  await sql`update template_version set body = ${JSON.stringify(template)}::jsonb where template_id = ${its.template}`.execute(
    db,
  )
  await sql`update managed_deployment set settings = '{"replicas":{},"scaling":{}}'`.execute(db)
  await sql`update rental set idle = '{"afterMinutes":30}'`.execute(db)
  await sql`update rental set spec = spec #- '{workload,restart}' #- '{workload,files}' where spec ? 'workload'`.execute(
    db,
  )
}

describe('an answer has all fields of its description, and no others (issue 31, 6)', () => {
  test.each(reading)('%s', async (operation, endpoint) => {
    const isOperators = Array.isArray(endpoint.access) && endpoint.access.every((scope) => scope === 'operator')
    const Authorization = `Bearer ${isOperators ? journey.operatorKey : ownerKey}`
    const headers = endpoint.access === 'person' ? session : { Authorization }
    const reply = await send(journey.url, endpoint, examples[operation](its), headers)
    if (lacks.includes(reply.body?.reason)) return
    expect([reply.status, reply.body?.message]).toEqual([200, reply.body?.message])
    // Parsing adds defaults that the answer lacks, and drops fields that nobody has described.
    expect(reply.body).toEqual(endpoint.response.encode(endpoint.response.parse(reply.body)))
  })
})
