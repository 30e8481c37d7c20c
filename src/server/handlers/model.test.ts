/**
 * Models and deployments are stored as requested, each change is in the audit log, and the key of a deployment is in no
 * answer, log line or table.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../../../test/harness/database.ts'
import { succeed } from '../../../test/harness/journey.ts'
import type { Reply } from '../../../test/harness/exchange.ts'
import { caller, type Call } from '../../../test/harness/server.ts'
import type { ModelStatus } from '../../app/app.ts'
import { checkUpstreamUrl } from '../../app/serving/model-url.ts'
import { limits } from '../../base/limits.ts'
import { readPrivateFile } from '../data/data-folder.ts'
import { serve, type RunningServer } from '../serve.ts'
import { readSettings } from '../settings.ts'
import { modelHandlers } from './model.ts'
import { writeRequest } from '../../../test/harness/ended-request.ts'
import { nanoUsdOf } from '../../base/money.ts'

let database: TestDatabase
let folder: string
let server: RunningServer
let operator: Call
/** Everything that the server has logged, at every level. */
let logged = ''

beforeAll(async () => {
  database = await testDatabase()
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-models-'))
  const settings = readSettings({
    BERTH_PORT: '0',
    BERTH_DATA_DIR: folder,
    DATABASE_URL: database.url,
    BERTH_LOCAL_ENGINES: 'false',
  })
  const log = pino({ level: 'trace' }, { write: (line: string) => void (logged += line) })
  server = await serve(settings, { log, checkResponses: true })
  operator = caller(server.url, readPrivateFile(folder, 'operator.key') ?? '')
})
afterAll(async () => {
  await server.close()
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

const models = '/v2/operator/models'
const deployments = '/v2/operator/deployments'
const called = (name: string): string => `${models}?name=${encodeURIComponent(name)}`
const create = (name: string, more: object = {}): Promise<Reply['body']> =>
  succeed(operator, 'POST', models, { name, kind: 'chat', ...more })
const deploy = (model: string, more: object = {}): Promise<Reply['body']> =>
  succeed(operator, 'POST', deployments, { model, url: 'http://10.0.0.7:8000', ...more })
const find = async (name: string): Promise<Reply['body']> =>
  (await succeed(operator, 'GET', models)).models.find((model: { name: string }) => model.name === name)
const refusal = async (...request: Parameters<Call>) => {
  const { status, body } = await operator(...request)
  return [status, body.reason, body.issues?.[0]?.path]
}
const lastAudit = async (): Promise<Reply['body']> =>
  (await succeed(operator, 'GET', '/v2/operator/audit?limit=1')).records[0]

describe('a model', () => {
  test('is added, listed, changed and deleted, by a name with slashes and other characters', async () => {
    const name = 'owner/model-1.5:q4@main+x'
    const model = await create(name, {
      inputUsdPerMillion: '0.2',
      outputUsdPerMillion: '0.6',
      contextTokens: 8_192,
      supportsTools: true,
    })
    expect(model).toMatchObject({
      name,
      kind: 'chat',
      engine: null,
      files: null,
      contextTokens: 8_192,
      maxOutputTokens: null,
      inputUsdPerMillion: '0.200000000',
      cachedUsdPerMillion: '0.200000000',
      outputUsdPerMillion: '0.600000000',
      pixelStepUsdPerMillion: '0.000000000',
      supportsTools: true,
      enabled: true,
      local: null,
      deployments: [],
    })
    expect(await find(name)).toEqual(model)
    const changed = await succeed(operator, 'PATCH', called(name), { enabled: false, contextTokens: null })
    expect(changed).toEqual({ ...model, enabled: false, contextTokens: null })
    await succeed(operator, 'DELETE', called(name))
    expect(await find(name)).toBeUndefined()
    expect(await refusal('DELETE', called(name))).toEqual([404, 'model_not_found', undefined])
    expect(await refusal('PATCH', called(name), { enabled: true })).toEqual([404, 'model_not_found', undefined])
  })

  test('needs a complete file source', async () => {
    const sha256 = '0a'.repeat(32)
    const part = (n: number) => ({ source: `npm:weights@1.0.${n}/part`, file: 'a.gguf', bytes: 5, sha256 })
    const model = await create('owner/local', { engine: 'llama', files: [part(1), part(2)] })
    expect(model.files).toEqual([part(1), part(2)])
    const cases: Array<[object, string, unknown]> = [
      [{ kind: 'chat', files: [part(1)] }, 'no_engine', ['files']],
      [{ kind: 'speech', engine: 'llama', files: [part(1)] }, 'engine_mismatch', ['engine']],
      [{ kind: 'chat', engine: 'picture' }, 'engine_mismatch', ['engine']],
      [{ kind: 'chat', engine: 'llama' }, 'files_missing', ['files']],
      [{ kind: 'speech', engine: 'speech', files: [part(1)] }, 'files_mismatch', ['files']],
      [
        { kind: 'chat', engine: 'llama', files: [part(1), { ...part(2), sha256: null }] },
        'files_mismatch',
        ['files', 0, 'sha256'],
      ],
    ]
    for (const [body, reason, at] of cases) {
      expect(await refusal('POST', models, { name: 'owner/odd', ...body })).toEqual([400, reason, at])
    }
    expect(await refusal('PATCH', called('owner/local'), { files: null })).toEqual([400, 'files_missing', ['files']])
    expect(await refusal('POST', models, { name: 'owner/local', kind: 'chat' })).toEqual([
      400,
      'model_exists',
      undefined,
    ])
  })

  test('charges cached tokens at the input price until they have their own', async () => {
    await create('owner/price', { inputUsdPerMillion: '1' })
    const change = (body: object) => succeed(operator, 'PATCH', called('owner/price'), body)
    expect(await change({ inputUsdPerMillion: '2' })).toMatchObject({ cachedUsdPerMillion: '2.000000000' })
    expect(await change({ cachedUsdPerMillion: '0.5' })).toMatchObject({ inputUsdPerMillion: '2.000000000' })
    expect(await change({ inputUsdPerMillion: '3' })).toMatchObject({ cachedUsdPerMillion: '0.500000000' })
    expect(await change({ inputUsdPerMillion: '4', cachedUsdPerMillion: '0.4' })).toMatchObject({
      inputUsdPerMillion: '4.000000000',
      cachedUsdPerMillion: '0.400000000',
    })
    expect(await refusal('PATCH', called('owner/price'), {})).toEqual([400, 'nothing_to_change', undefined])
  })

  test('can be deleted after use; the cost of its requests stays', async () => {
    await create('owner/earned')
    const { db } = server.app.database
    await writeRequest(db, {
      requestId: 'req_earned',
      accountId: 'operator',
      model: 'owner/earned',
      cost: nanoUsdOf(5n),
    })
    await succeed(operator, 'DELETE', called('owner/earned'))
    const requests = await db.selectFrom('request').select('model').where('request_id', '=', 'req_earned').execute()
    expect(requests).toEqual([{ model: 'owner/earned' }])
  })

  test('is created once per idempotency key', async () => {
    const body = { name: 'owner/once', kind: 'chat' }
    const headers = { 'Idempotency-Key': 'model-once' }
    const first = await operator('POST', models, body, headers)
    expect(first.status).toBe(200)
    expect(await operator('POST', models, body, headers)).toMatchObject({ status: 200, body: first.body })
    expect((await operator('POST', models, { ...body, kind: 'image' }, headers)).body.reason).toBe(
      'idempotency_key_reused',
    )
  })

  test('is limited in number', async () => {
    const { pool } = server.app.database
    const { rows } = await pool.query<{ n: number }>('select count(*)::integer as n from model')
    await pool.query(
      `insert into model (name, kind, created_at) select 'filler-' || n, 'chat', now() from generate_series(1, $1::integer) n`,
      [limits.models - (rows[0]?.n ?? 0)],
    )
    expect(await refusal('POST', models, { name: 'owner/more', kind: 'chat' })).toEqual([
      403,
      'too_many_models',
      undefined,
    ])
    await pool.query(`delete from model where name like 'filler-%'`)
  })
})

describe('a deployment', () => {
  test('has the given values and defaults for the rest; its model lists it', async () => {
    await create('owner/served')
    const deployment = await deploy('owner/served', {
      url: 'http://10.0.0.7:8000/v1',
      concurrency: 64,
      readsMetrics: true,
    })
    expect(deployment).toEqual({
      id: expect.stringMatching(/^dep_/),
      model: 'owner/served',
      protocol: 'chat',
      url: 'http://10.0.0.7:8000/v1',
      upstreamModel: 'owner/served',
      hasApiKey: false,
      weight: 1,
      concurrency: 64,
      connectMs: 5_000,
      firstByteMs: 120_000,
      betweenBytesMs: 60_000,
      totalMs: 1_800_000,
      readsMetrics: true,
      drained: false,
      createdAt: expect.any(String),
      health: null,
    })
    // Shortly afterwards the server uses it and reports its health.
    const [listed] = (await find('owner/served')).deployments
    expect({ ...listed, health: null }).toEqual(deployment)
    const change = async (body: object) => ({
      ...(await succeed(operator, 'PATCH', `${deployments}/${deployment.id}`, body)),
      health: null,
    })
    expect(await change({ drained: true })).toEqual({ ...deployment, drained: true })
    expect(await change({ drained: false, weight: 0, upstreamModel: 'other', totalMs: 5 })).toEqual({
      ...deployment,
      weight: 0,
      upstreamModel: 'other',
      totalMs: 5,
    })
    expect(await refusal('PATCH', `${deployments}/${deployment.id}`, {})).toEqual([400, 'nothing_to_change', undefined])
    await succeed(operator, 'DELETE', `${deployments}/${deployment.id}`)
    expect((await find('owner/served')).deployments).toEqual([])
    expect(await refusal('DELETE', `${deployments}/${deployment.id}`)).toEqual([404, 'deployment_not_found', undefined])
    expect(await refusal('PATCH', `${deployments}/${deployment.id}`, { weight: 1 })).toEqual([
      404,
      'deployment_not_found',
      undefined,
    ])
  })

  test('must use a protocol of its kind of model', async () => {
    for (const [kind, protocol] of [
      ['chat', 'chat'],
      ['embedding', 'chat'],
      ['image', 'images'],
      ['speech', 'speech'],
    ] as const) {
      await create(`kind/${kind}`, { kind })
      expect(await deploy(`kind/${kind}`)).toMatchObject({ protocol })
    }
    expect(await deploy('kind/image', { protocol: 'txt2img' })).toMatchObject({ protocol: 'txt2img' })
    const unfit = { model: 'kind/chat', url: 'http://10.0.0.7', protocol: 'speech' }
    expect(await refusal('POST', deployments, unfit)).toEqual([400, 'protocol_mismatch', ['protocol']])
    const absent = { model: 'kind/none', url: 'http://10.0.0.7' }
    expect(await refusal('POST', deployments, absent)).toEqual([400, 'model_not_found', ['model']])
  })

  test('is deleted with its model, and limited in number', async () => {
    await create('owner/full')
    const { pool } = server.app.database
    await pool.query(
      `insert into deployment (id, model, protocol, url, upstream_model, created_at)
        select 'dep_full' || n, 'owner/full', 'chat', 'http://10.0.0.7', 'm', now() from generate_series(1, $1::integer) n`,
      [limits.deploymentsPerModel],
    )
    const more = { model: 'owner/full', url: 'http://10.0.0.7' }
    expect(await refusal('POST', deployments, more)).toEqual([403, 'too_many_deployments', undefined])
    await succeed(operator, 'DELETE', called('owner/full'))
    const { rows } = await pool.query(`select 1 from deployment where model = 'owner/full'`)
    expect(rows).toEqual([])
  })

  test('may be in a private network, but not at a cloud metadata address', async () => {
    await create('owner/place')
    for (const url of [
      'http://169.254.169.254/v1',
      'http://[fe80::1]:8000',
      'http://[::ffff:169.254.169.254]/',
      'http://2852039166/',
      'http://168.63.129.16',
      'http://100.100.100.200',
      'http://[fd00:ec2::254]',
      'http://0.0.0.0:8000',
      'http://user:pass@10.0.0.7',
      'http://10.0.0.7/v1?key=1',
    ]) {
      expect([url, ...(await refusal('POST', deployments, { model: 'owner/place', url }))]).toEqual([
        url,
        400,
        'url_refused',
        ['url'],
      ])
    }
    const { id } = await deploy('owner/place', { url: 'http://127.0.0.1:8000' })
    expect(await refusal('PATCH', `${deployments}/${id}`, { url: 'http://169.254.1.1' })).toEqual([
      400,
      'url_refused',
      ['url'],
    ])
    const metadata = async () => [{ address: '169.254.169.254', family: 4 }]
    expect(await checkUpstreamUrl('http://metadata.internal/', metadata)).toMatchObject({ reason: 'url_refused' })
    const inside = async () => [{ address: '10.1.2.3', family: 4 }]
    expect(await checkUpstreamUrl('https://vllm.internal/v1', inside)).toBeUndefined()
    const unknown = async () => {
      throw new Error('no such name')
    }
    expect(await checkUpstreamUrl('http://not-yet.internal/', unknown)).toBeUndefined()
  })
})

describe('a deployment’s key', () => {
  const secrets = ['upstream-secret-one', 'upstream-secret-two']

  test('is in no answer, log line or table; the audit log records its change', async () => {
    await create('owner/keyed')
    const answers: unknown[] = []
    const headers = { 'Idempotency-Key': 'keyed-once' }
    const body = { model: 'owner/keyed', url: 'http://10.0.0.7', apiKey: secrets[0] }
    const created = await operator('POST', deployments, body, headers)
    answers.push(created.body, (await operator('POST', deployments, body, headers)).body)
    expect(created.body).toMatchObject({ hasApiKey: true })
    const change = (apiKey: string | null) =>
      succeed(operator, 'PATCH', `${deployments}/${created.body.id}`, { apiKey, reason: 'rotated' })
    answers.push(await change(secrets[1] ?? ''), await find('owner/keyed'))
    expect(await lastAudit()).toMatchObject({
      action: 'deployment.change',
      subject: created.body.id,
      reason: 'rotated',
      detail: { model: 'owner/keyed', before: { apiKey: 'set' }, changed: { apiKey: 'set' } },
    })
    const { db, pool } = server.app.database
    const { key_sealed } = await db
      .selectFrom('deployment')
      .select('key_sealed')
      .where('id', '=', created.body.id)
      .executeTakeFirstOrThrow()
    expect(server.app.vault.open(key_sealed ?? '')).toBe(secrets[1])
    answers.push(await succeed(operator, 'GET', '/v2/operator/audit'))
    const { rows: tables } = await pool.query<{ name: string }>(
      `select tablename as name from pg_tables where schemaname = 'public'`,
    )
    for (const { name } of tables)
      answers.push((await pool.query(`select to_jsonb(t)::text as row from ${name} t`)).rows)
    const everything = JSON.stringify(answers) + logged
    for (const secret of secrets) expect(everything.includes(secret)).toBe(false)
    expect(logged).toContain('createDeployment')
    expect(await change(null)).toMatchObject({ hasApiKey: false })
    expect(await lastAudit()).toMatchObject({ detail: { before: { apiKey: 'set' }, changed: { apiKey: 'none' } } })
  })

  test('must be one line of visible characters, since it becomes a header', async () => {
    await create('owner/header')
    const body = { model: 'owner/header', url: 'http://10.0.0.7', apiKey: 'a\r\nX-Evil: 1' }
    expect(await refusal('POST', deployments, body)).toEqual([400, undefined, ['apiKey']])
  })
})

test('the audit log records old and new values', async () => {
  await create('owner/audited', { inputUsdPerMillion: '1', reason: 'new model' })
  const created = await lastAudit()
  expect(created).toMatchObject({
    action: 'model.create',
    subject: 'owner/audited',
    reason: 'new model',
    detail: { kind: 'chat', inputUsdPerMillion: '1.000000000' },
  })
  await succeed(operator, 'PATCH', called('owner/audited'), { inputUsdPerMillion: '2', enabled: false })
  expect(await lastAudit()).toMatchObject({
    action: 'model.change',
    actor: created.actor,
    detail: {
      before: { inputUsdPerMillion: '1.000000000', cachedUsdPerMillion: '1.000000000', enabled: true },
      changed: { inputUsdPerMillion: '2.000000000', cachedUsdPerMillion: '2.000000000', enabled: false },
    },
  })
  const { id } = await deploy('owner/audited', { weight: 2 })
  await succeed(operator, 'PATCH', `${deployments}/${id}`, { weight: 5 })
  const changed = await lastAudit()
  expect(changed.detail).toEqual({ model: 'owner/audited', before: { weight: 2 }, changed: { weight: 5 } })
  await succeed(operator, 'DELETE', called('owner/audited'))
  expect(await lastAudit()).toMatchObject({ action: 'model.delete', subject: 'owner/audited' })
})

test('the list includes this server’s engines and the health of deployments', async () => {
  await create('owner/seen')
  const { id } = await deploy('owner/seen')
  const local = { state: 'pulling', doneBytes: 5, totalBytes: 10, message: null, retryInMs: null } as const
  const health = { breaker: 'half_open', inFlight: 3, limit: 48, queued: 1, faults: 2 } as const
  const modelStatus: ModelStatus = {
    localState: (model) => (model === 'owner/seen' ? local : undefined),
    deploymentHealth: (deployment) => (deployment === id ? health : undefined),
  }
  const listed = await modelHandlers.listOperatedModels({ ...server.app, modelStatus })
  expect(listed.value.models.find(({ name }) => name === 'owner/seen')).toMatchObject({
    local,
    deployments: [{ health }],
  })
  const others = listed.value.models.filter(({ name }) => name !== 'owner/seen')
  expect(others.every((model) => model.local === null)).toBe(true)
})
