/** Model and deployment commands against a real server. */
import { fail } from '../../contract/result.ts'
import { spawn } from 'node:child_process'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest, type Outcome } from '../../../test/lab/cli.ts'
import type { DeploymentHealth, LocalModelState } from '../../contract/model.ts'
import type { Model } from '../../view/model.ts'
import { runCli } from '../program.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
/** States of engines and deployments, set by the tests. */
const locals = new Map<string, () => LocalModelState>()
const healths = new Map<string, DeploymentHealth>()
/** In front of the server: hands everything on, and adds to the list of models what the tests have set. */
let front: http.Server
let url: string

beforeAll(async () => {
  cli = await startCliTest()
  front = http.createServer((request, response) => void pass(request, response))
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`
})
afterAll(async () => {
  front.close()
  await cli.close()
})

async function pass(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  const { method = 'GET', url: address = '/' } = request
  const body = await text(request)
  const { authorization = '', 'idempotency-key': key } = request.headers
  const reply = await fetch(`${cli.server.url}${address}`, {
    method,
    headers: {
      authorization,
      ...(body === '' ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'idempotency-key': String(key) }),
    },
    ...(body === '' ? {} : { body }),
  })
  const answer = (await reply.json()) as { models?: Model[] }
  response.writeHead(reply.status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(answer.models === undefined ? answer : { models: answer.models.map(withSight) }))
}

function withSight(model: Model): Model {
  const deployments = model.deployments.map((one) => ({ ...one, health: healths.get(one.id) ?? null }))
  return { ...model, local: locals.get(model.name)?.() ?? null, deployments }
}

const berth = (args: readonly string[], env: Record<string, string> = {}) => cli.berth(args, { BERTH_URL: url, ...env })
const json = async (...args: string[]): Promise<unknown> => JSON.parse(await done(...args, '--json'))
const find = async (name: string): Promise<Model | undefined> =>
  ((await json('models', 'ls')) as { models: Model[] }).models.find((model) => model.name === name)
const done = async (...args: string[]): Promise<string> => {
  const { code, out, error } = await berth(args)
  expect({ code, error }).toEqual({ code: 0, error: '' })
  return out
}
const nothing = { doneBytes: null, totalBytes: null, message: null, retryInMs: null }

describe('models', () => {
  test('prints how to add a model when there are none', async () => {
    expect(await done('models', 'ls')).toContain('To add one: berth models create NAME')
    expect(await done('operator', 'upstreams', 'ls')).toContain('There are no upstreams.')
  })

  test('adds a model from a file, whole or in parts, with its price', async () => {
    const add = ['models', 'create', 'owner/local', '--source', 'npm:a@1.0.0/1', 'npm:a@1.0.0/2', '--context', '2048']
    const facts = ['--sha256', 'AB'.repeat(32), '--input-price', '0.05', '--output-price', '0.10', '--tools']
    const out = await done(...add, ...facts)
    expect(out).toContain('owner/local is on sale at $0.05 in, $0.10 out per million tokens.')
    expect(out).toContain('berth models pull owner/local')
    const part = { file: 'owner-local.gguf', bytes: null, sha256: 'ab'.repeat(32) }
    expect(await find('owner/local')).toMatchObject({
      kind: 'chat',
      engine: 'llama',
      contextTokens: 2_048,
      supportsTools: true,
      files: [
        { ...part, source: 'npm:a@1.0.0/1' },
        { ...part, source: 'npm:a@1.0.0/2' },
      ],
    })
    await done('models', 'create', 'owner/gguf', '--gguf', 'some.gguf')
    expect((await find('owner/gguf'))?.files?.[0]?.source).toBe(`file:${process.cwd()}/some.gguf`)
  })

  test('adds a model and its deployment at once, and never shows the key', async () => {
    const args = [
      'models',
      'create',
      'owner/remote',
      '--upstream',
      'http://10.0.0.7:8000/v1',
      '--upstream-model',
      'there',
    ]
    const { code, out } = await berth([...args, '--api-key-env', 'UPSTREAM_KEY', '--json'], {
      UPSTREAM_KEY: 'secret-of-upstream\n',
    })
    expect(code).toBe(0)
    expect(out).not.toContain('secret-of-upstream')
    expect(JSON.parse(out)).toMatchObject({
      name: 'owner/remote',
      deployments: [{ url: 'http://10.0.0.7:8000/v1', upstreamModel: 'there', protocol: 'chat', hasApiKey: true }],
    })
    const { db } = cli.server.app.database
    const row = await db.selectFrom('deployment').select('key_sealed').executeTakeFirstOrThrow()
    expect(cli.server.app.vault.open(row.key_sealed ?? '')).toBe('secret-of-upstream')
  })

  test('leaves no model behind when the deployment is rejected', async () => {
    const bad = await berth(['models', 'create', 'owner/bad', '--upstream', 'http://169.254.169.254/'])
    expect(bad).toMatchObject({ code: 1, out: '', error: expect.stringContaining('metadata') })
    expect(await find('owner/bad')).toBeUndefined()
    expect(
      await done('models', 'create', 'owner/bad', '--upstream', 'http://10.0.0.8', '--protocol', 'txt2img'),
    ).toContain('owner/bad is on sale at $0.00 per megapixel per step')
    await done('models', 'rm', 'owner/bad', '--yes')
  })

  test('image models run locally until they have a deployment', async () => {
    const pictures = { name: 'pictogram', kind: 'image', engine: 'picture', pixelStepUsdPerMillion: '0.0001' }
    await cli.server.operator('POST', '/v2/operator/models', pictures)
    locals.set('pictogram', () => ({ ...nothing, state: 'ready' }))
    expect(await done('models', 'ls')).toMatch(/^pictogram +image +ready +\$0\.0001 per megapixel per step +local$/m)
    await done('operator', 'upstreams', 'create', 'pictogram', '--upstream', 'http://10.0.0.8', '--protocol', 'txt2img')
    expect(await done('models', 'ls')).toMatch(
      /^pictogram +image +ready +\$0\.0001 per megapixel per step +1 deployment$/m,
    )
    const id = (await find('pictogram'))?.deployments[0]?.id ?? ''
    await done('operator', 'upstreams', 'drain', id)
    expect(await done('models', 'ls')).toMatch(/megapixel per step +local, 1 deployment, 1 drained$/m)
    await done('models', 'rm', 'pictogram', '--yes')
  })

  test('lists state, price, deployments and context', async () => {
    locals.set('owner/local', () => ({ ...nothing, state: 'pulling', doneBytes: 42_500_000, totalBytes: 100_000_000 }))
    locals.set('owner/gguf', () => ({
      ...nothing,
      state: 'failed',
      message: 'no such \u001B[31mfile',
      retryInMs: 9_000,
    }))
    const out = await done('models', 'ls')
    expect(out).toMatch(
      /^owner\/local +chat +downloading 42% of 100 MB +\$0\.05 in, \$0\.10 out per million tokens +local +2,048$/m,
    )
    expect(out).toMatch(/^owner\/gguf +chat +failed +\$0\.00 in, \$0\.00 out per million tokens +local$/m)
    expect(out).toMatch(/^owner\/remote +chat +ready +\$0\.00 in, \$0\.00 out per million tokens +1 deployment$/m)
    expect(out).toContain('owner/gguf failed: no such \\x1b[31mfile')
    expect(out).toMatch(/^3 models$/m)
    await done('models', 'disable', 'owner/remote')
    expect(await done('models', 'ls')).toMatch(/^owner\/remote +chat +disabled /m)
    await done('models', 'enable', 'owner/remote')
    expect(await json('models', 'ls')).toMatchObject({
      models: [{ name: 'owner/local', local: { state: 'pulling' } }, { name: 'owner/gguf' }, { name: 'owner/remote' }],
    })
  })

  test('changes only the price', async () => {
    const before = await find('owner/local')
    const out = await done('models', 'price', 'owner/local', '--cached-price', '0.01', '--reason', 'cheaper')
    expect(out).toBe('owner/local now costs $0.05 in, $0.01 cached, $0.10 out per million tokens.\n')
    expect(await find('owner/local')).toEqual({ ...before, cachedUsdPerMillion: '0.010000000' })
  })

  test('removes models, and points to the list for unknown ones', async () => {
    await done('models', 'create', 'owner/gone', '--upstream', 'http://10.0.0.9')
    expect(await berth(['models', 'rm', 'owner/gone'])).toMatchObject({ code: 2, out: '' })
    expect(await done('models', 'rm', 'owner/gone', '--yes')).toBe(
      'Deleted owner/gone. Its revenue stays in the ledger.\n',
    )
    const again = await berth(['models', 'rm', 'owner/gone', '--yes'])
    const { message } = fail('model_not_found', { model: 'owner/gone' })
    expect(again).toEqual({ code: 1, out: '', error: `error: ${message}\n  To list them: berth models ls\n` })
    const twice = await berth(['models', 'create', 'owner/local', '--upstream', 'http://10.0.0.9'])
    expect(twice.code).toBe(1)
    expect(twice.error).toContain('berth operator upstreams create')
    const result = await berth(['models', 'rm', 'owner/gone', '--yes', '--json'])
    expect(JSON.parse(result.error)).toMatchObject({ error: { status: 404, reason: 'model_not_found' } })
  })

  test.each([
    [['models', 'create', 'owner/x'], 'A server that runs it:           berth models create owner/x --upstream http'],
    [['models', 'create', '-x'], 'unknown option'],
    [['models', 'create', 'a b', '--upstream', 'http://a'], 'letters, digits and'],
    [['models', 'create', 'x', '--source', 'ftp://a'], 'Must be npm:'],
    [['models', 'create', 'x', '--gguf', 'a', '--upstream', 'http://a'], 'cannot be used with'],
    [['models', 'create', 'x', '--gguf', 'a', '--protocol', 'chat'], 'need --upstream'],
    [['models', 'create', 'x', '--upstream', 'http://a', '--sha256', '0'.repeat(64)], 'needs --gguf or --source'],
    [['models', 'create', 'x', '--upstream', 'http://a', '--api-key', 'secret'], 'unknown option'],
    [['models', 'create', 'x', '--upstream', 'http://a', '--api-key-env', 'UNSET'], 'UNSET is empty or not set.'],
    [['models', 'create', 'x', '--upstream', 'http://a', '--input-price', '-1'], 'Must be a price in USD'],
    [['models', 'price', 'owner/local'], 'No changes were given.'],
    [['operator', 'upstreams', 'create', 'owner/local'], "required option '--upstream <url>'"],
    [['operator', 'upstreams', 'weight', 'dep_1', '1001'], 'from 0 to 1000.'],
  ])('%j is wrong usage: exit code 2, and nothing on the output', async (args, message) => {
    const { code, out, error } = await berth(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain(message)
    expect(error).not.toMatch(/secret(?!')/)
  })

  test('a file on a remote server needs an absolute path', async () => {
    const elsewhere = ['--url', 'http://berth.invalid', '--key', 'bk_x']
    const { code, error } = await berth(['models', 'create', 'x', '--gguf', 'a.gguf', ...elsewhere])
    expect(code).toBe(2)
    expect(error).toContain('Give the absolute path')
  })
})

describe('pull', () => {
  /** Goes on by one state each time that it is asked for. */
  function play(name: string, states: readonly LocalModelState[]): void {
    let at = 0
    locals.set(name, () => states[Math.min(at++, states.length - 1)] ?? { ...nothing, state: 'ready' })
  }
  const pulling = (doneBytes: number): LocalModelState => ({
    ...nothing,
    state: 'pulling',
    doneBytes,
    totalBytes: 200_000_000,
  })
  const loading: LocalModelState = { ...nothing, state: 'loading' }
  const ready: LocalModelState = { ...nothing, state: 'ready' }

  test('follows a download to its end, one line per step', async () => {
    play('owner/local', [pulling(1_000_000), pulling(2_000_000), pulling(150_000_000), loading, ready])
    expect(await done('models', 'pull', 'owner/local')).toBe(
      [
        'owner/local: downloading 0% of 200 MB',
        'owner/local: downloading 75% of 200 MB',
        'owner/local: starting',
        'owner/local: ready',
        'owner/local is ready.',
        '',
      ].join('\n'),
    )
  })

  test('prints one state per line for --json', async () => {
    play('owner/local', [pulling(150_000_000), ready])
    const { out } = await berth(['models', 'pull', 'owner/local', '--json'])
    const lines = out.trimEnd().split('\n')
    expect(lines.map((line) => (JSON.parse(line) as LocalModelState).state)).toEqual(['pulling', 'ready'])
  })

  test('draws a progress bar in a terminal', async () => {
    play('owner/local', [pulling(100_000_000), loading, ready])
    let screen = ''
    const write = (text: string): void => void (screen += text)
    const code = await runCli(['models', 'pull', 'owner/local', '--key', cli.server.operatorKey], {
      env: cli.environment({ BERTH_URL: url }),
      color: { out: true, error: true },
      write,
      writeError: write,
      readFile: () => undefined,
      readInput: () => undefined,
    })
    expect(code).toBe(0)
    expect(screen).toContain(`\r\u001B[K${'█'.repeat(15)}${'░'.repeat(15)} 50% of 200 MB`)
    expect(stripVTControlCharacters(screen)).toMatch(/\rstarting\r[^\n]*owner\/local is ready\.\n$/)
  })

  test('exits with 1 and a next step for failures and models without a file', async () => {
    play('owner/local', [pulling(1), { ...nothing, state: 'failed', message: 'the disk is full', retryInMs: 29_500 }])
    const failed = await berth(['models', 'pull', 'owner/local'])
    expect(failed.code).toBe(1)
    expect(failed.error).toContain('error: owner/local failed: the disk is full.\n  The server retries in 30 s')
    const cases = [
      ['owner/none', 'There is no model owner/none.'],
      ['owner/remote', 'owner/remote has no file to download.'],
    ] as const
    for (const [name, message] of cases) {
      const { code, error } = await berth(['models', 'pull', name])
      expect([code, error]).toEqual([1, expect.stringContaining(message)])
    }
    locals.delete('owner/gguf')
    expect((await berth(['models', 'pull', 'owner/gguf'])).error).toContain('BERTH_LOCAL_ENGINES')
    await done('models', 'disable', 'owner/gguf')
    expect((await berth(['models', 'pull', 'owner/gguf'])).error).toContain('berth models enable owner/gguf')
  })
})

describe('upstreams', () => {
  /** Runs it with something to read. */
  const withInput = (args: readonly string[], input: string): Promise<Outcome> =>
    new Promise((resolve) => {
      const child = spawn(process.execPath, [cli.program, ...args], { env: cli.environment({ BERTH_URL: url }) })
      let [out, error] = ['', '']
      child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
      child.stderr.on('data', (chunk: Buffer) => (error += chunk.toString()))
      child.on('close', (code) => resolve({ code, out, error }))
      child.stdin.end(input)
    })

  test('are added, weighted, drained, resumed, listed and removed', async () => {
    await done('models', 'create', 'owner/many', '--upstream', 'http://10.0.0.7:8000')
    const add = ['operator', 'upstreams', 'create', 'owner/many', '--upstream', 'http://10.0.0.8:8000', '--weight', '3']
    const added = await withInput([...add, '--concurrency', '64', '--reads-metrics', '--api-key-stdin'], 'from-stdin\n')
    expect(added).toMatchObject({ code: 0, error: '' })
    const [, id = ''] = /^http:\/\/10\.0\.0\.8:8000\/ now serves owner\/many as (dep_\w+)\.$/m.exec(added.out) ?? []
    const { db } = cli.server.app.database
    const row = await db.selectFrom('deployment').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    expect(cli.server.app.vault.open(row.key_sealed ?? '')).toBe('from-stdin')
    expect(row).toMatchObject({ weight: 3, concurrency: 64, reads_metrics: true })

    healths.set(id, { breaker: 'open', inFlight: 5, limit: 64, queued: 2, faults: 7 })
    const line = (state: string, weight: number): RegExp =>
      new RegExp(`^${id} +owner/many +http://10\\.0\\.0\\.8:8000/ +chat +${state} +${weight} +5 of 64 +7$`, 'm')
    expect(await done('operator', 'upstreams', 'ls', '--model', 'owner/many')).toMatch(line('failing', 3))
    healths.set(id, { breaker: 'closed', inFlight: 5, limit: 64, queued: 2, faults: 7 })
    expect(await done('operator', 'upstreams', 'weight', id, '9')).toBe(`${id} now has weight 9.\n`)
    expect(await done('operator', 'upstreams', 'ls')).toMatch(line('healthy', 9))
    expect(await done('operator', 'upstreams', 'drain', id)).toBe(`${id} is drained.\n`)
    expect(await done('operator', 'upstreams', 'ls')).toMatch(line('drained', 9))
    expect(await done('models', 'ls')).toMatch(/^owner\/many .* 2 deployments, 1 drained$/m)
    expect(await done('operator', 'upstreams', 'resume', id)).toBe(`${id} is in use again.\n`)
    expect(await json('operator', 'upstreams', 'ls', '--model', 'owner/many')).toMatchObject({
      upstreams: [{ url: 'http://10.0.0.7:8000/' }, { id, hasApiKey: true, drained: false }],
    })
    expect(await done('operator', 'upstreams', 'rm', id)).toBe(`Deleted ${id}.\n`)
    const again = await berth(['operator', 'upstreams', 'rm', id])
    expect(again).toMatchObject({
      code: 1,
      error: expect.stringContaining('To list them: berth operator upstreams ls'),
    })
  })

  test('rejects an empty key on standard input', async () => {
    const add = [
      'operator',
      'upstreams',
      'create',
      'owner/many',
      '--upstream',
      'http://10.0.0.8:8000',
      '--api-key-stdin',
    ]
    expect(await withInput(add, ' \n')).toMatchObject({ code: 2, error: expect.stringContaining('holds no key') })
  })

  test('an unknown model: exit code 1, and how to list models', async () => {
    for (const args of [
      ['operator', 'upstreams', 'ls', '--model', 'owner/none'],
      ['operator', 'upstreams', 'create', 'owner/none', '--upstream', 'http://10.0.0.8'],
    ]) {
      const { code, error } = await berth(args)
      expect([code, error]).toEqual([1, expect.stringContaining('To list them: berth models ls')])
    }
  })
})

test('the help lists every model command in 80 columns', async () => {
  const { out } = await berth(['--help'])
  const names = ['ls', 'create <name>', 'pull <name>', 'price <name>', 'enable <name>', 'disable <name>', 'rm <name>']
  const more = ['ls', 'create <model>', 'weight <id> <n>', 'drain <id>', 'resume <id>', 'rm <id>']
  for (const command of [
    ...names.map((name) => `models ${name}`),
    ...more.map((name) => `operator upstreams ${name}`),
  ]) {
    expect(out).toMatch(new RegExp(`^  ${command} {2,}\\S`, 'm'))
  }
  for (const args of [['models', 'create'], ['operator', 'upstreams', 'create'], ['models', 'price'], []]) {
    const { out: help } = await berth([...args, '--help'])
    expect(Math.max(...help.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
  }
})
