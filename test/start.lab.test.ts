/** Starting and stopping `berth serve` as a user does. */
import { spawn } from 'node:child_process'
import { chmod, mkdtemp, stat } from 'node:fs/promises'
import { existsSync, readFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, expect, inject, it } from 'vitest'
import { emptyDatabase } from './harness/database.ts'
import { removeFolder } from './harness/leftover.ts'
import { startServerProcess } from './lab/process.ts'
import { caller } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const cleanUp: Array<() => Promise<unknown>> = []
/** For tests that are not about a first start, which creates a PostgreSQL cluster and takes ten times as long. */
let home: string
beforeAll(async () => {
  home = await mkdtemp(path.join(os.tmpdir(), 'berth-start-'))
})
afterEach(async () => {
  for (const step of cleanUp.splice(0).toReversed()) await step()
})
afterAll(() => removeFolder(home))

async function folder(): Promise<string> {
  const dir = await mkdtemp(path.join(os.tmpdir(), 'berth-start-'))
  cleanUp.push(() => removeFolder(dir))
  return dir
}

async function start(env: Record<string, string>) {
  const server = await startServerProcess(env)
  cleanUp.push(() => server.killTree())
  return server
}

/** Runs until exit, for starts that are rejected. */
async function run(env: Record<string, string>, args: string[] = []): Promise<{ code: number | null; text: string }> {
  const child = spawn(process.execPath, [inject('serverBundle'), ...args], {
    env: { PATH: process.env.PATH ?? '', ...env },
  })
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()))
  // Not on `exit`: output may still be in the pipe then.
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, text }
}

it('writes keys that only their owner can read, and suggests commands that work', async () => {
  const dir = await folder()
  const server = await start({ BERTH_DATA_DIR: dir })
  for (const name of ['operator.key', 'demo.key', 'demo_ssh_key', 'secret.key']) {
    expect(`${name} ${((await stat(path.join(dir, name))).mode & 0o777).toString(8)}`).toBe(`${name} 600`)
  }
  expect(server.output()).toMatch(/^Berth is ready at \S+ \(\d+\.\d s\)\.\n/)
  expect(server.output()).not.toContain('WARNING')
  expect(server.output()).toContain(`${server.url}/docs`)
  // Models that need a download are left out, and so are the suggestions for them.
  expect(server.output()).not.toContain('chat')
  expect(server.output()).toContain('demo.key')
  const key = readFileSync(path.join(dir, 'demo.key'), 'utf8').trim()
  const files = { keyFile: path.join(dir, 'demo.key'), operatorKeyFile: path.join(dir, 'operator.key') }
  expect((await caller(server.url, null)('GET', '/console/welcome')).body).toEqual(files)
  const [, token] = /\/sign-in#welcome=(\S+)\n/.exec(server.output()) ?? []
  const open = () => caller(server.url, null)('POST', '/console/welcome', { token }, { 'X-Berth-Console': '1' })
  expect((await open()).body).toEqual({ ...files, demoKey: key })
  expect(await open()).toMatchObject({ status: 403, body: { reason: 'link_used' } })
  const demo = caller(server.url, key)
  expect((await demo('GET', '/billing/get_current_balance')).body.credits).toBe(2_000_000)
  expect((await caller(server.url, null)('GET', '/healthz')).status).toBe(200)
  expect((await caller(server.url, null)('GET', '/readyz')).body.checks).toEqual({
    database: 'ok',
    mock: 'ok',
    host: 'ok',
    'private-cloud': 'ok',
    journal: 'ok',
  })
})

it('warns about a public address without TLS and with the demo account', async () => {
  const server = await start({ BERTH_DATA_DIR: await folder(), BERTH_HOST: '0.0.0.0' })
  expect(server.output().match(/^WARNING: .*$/gm)).toEqual([
    expect.stringMatching(/0\.0\.0\.0 without TLS/),
    expect.stringMatching(/demo account/),
  ])
})

it('exits within ten seconds of SIGTERM despite open streams and idle connections, and keeps its data', async () => {
  const dir = home
  const first = await start({ BERTH_DATA_DIR: dir })
  const key = readFileSync(path.join(dir, 'demo.key'), 'utf8').trim()
  const rented = await caller(first.url, key)('POST', '/v2/alpha/on-demand/virtual-machine-rentals', {
    gpuCount: 1,
    region: 'mock-region',
  })
  expect(rented.status).toBe(200)
  const stream = await fetch(`${first.url}/v2/events/stream`, { headers: { Authorization: `Bearer ${key}` } })
  expect(stream.status).toBe(200)
  const ended = await first.stop()
  expect(ended.code).toBe(0)
  expect(ended.tookMs).toBeLessThan(10_000)
  await stream.body?.cancel().catch(() => {})

  const second = await start({ BERTH_DATA_DIR: dir })
  expect(second.output()).not.toContain('A demo account')
  const found = await caller(second.url, key)('GET', `/v2/alpha/on-demand/rentals/${rented.body.id as number}`)
  expect(found.body.name).toBe(rented.body.name)
})

it('runs twice on one machine, and rejects a data folder or port in use with a one-sentence error', async () => {
  const dir = home
  const first = await start({ BERTH_DATA_DIR: dir })
  const second = await start({ BERTH_DATA_DIR: await folder() })
  expect(second.url).not.toBe(first.url)
  const sameFolder = await run({ BERTH_DATA_DIR: dir, BERTH_PORT: '0' })
  expect(sameFolder.code).toBe(1)
  expect(sameFolder.text.trim().split('\n')).toHaveLength(1)
  expect(sameFolder.text).toContain(String(first.pid))
  const port = new URL(first.url).port
  const untouched = path.join(await folder(), 'data')
  const ports = [{ BERTH_PORT: port }, { BERTH_PORT: '0', BERTH_METRICS_PORT: port }]
  for (const env of ports) {
    const refused = await run({ BERTH_DATA_DIR: untouched, ...env })
    expect(refused.code).toBe(1)
    expect(refused.text.trim().split('\n')).toHaveLength(1)
    expect(refused.text).toContain(port)
    expect(refused.text).toContain(Object.keys(env).at(-1))
    expect(existsSync(untouched)).toBe(false)
  }
  const noAddress = await run({ BERTH_DATA_DIR: untouched, BERTH_HOST: '192.0.2.1' })
  expect(noAddress.text).toContain('BERTH_HOST')
  expect(existsSync(untouched)).toBe(false)
})

it('names the invalid setting', async () => {
  const dir = await folder()
  const bad = await run({ BERTH_DATA_DIR: dir, BERTH_PORT: 'eighty', BERTH_LOG_LEVEL: 'loud' })
  expect(bad.code).toBe(1)
  expect(bad.text).toContain('BERTH_PORT')
  expect(bad.text).toContain('BERTH_LOG_LEVEL')
  expect((await run({}, ['--help'])).text).toContain('BERTH_DATA_DIR')
})

it('starts again after kill -9 of all processes, with stale lock files in place', async () => {
  const dir = home
  const first = await start({ BERTH_DATA_DIR: dir })
  await first.killTree()
  const second = await start({ BERTH_DATA_DIR: dir })
  expect((await caller(second.url, null)('GET', '/readyz')).status).toBe(200)
})

it('starts again when only the server was killed and its PostgreSQL still runs', async () => {
  const dir = home
  const first = await start({ BERTH_DATA_DIR: dir })
  process.kill(first.pid, 'SIGKILL')
  await waitFor('its end', () => !existsSync(`/proc/${first.pid}`))
  const second = await start({ BERTH_DATA_DIR: dir })
  expect((await caller(second.url, null)('GET', '/readyz')).status).toBe(200)
})

it('rejects a secret key that differs from the database’s', async () => {
  const dir = home
  const first = await start({ BERTH_DATA_DIR: dir })
  await first.stop()
  const other = await run({ BERTH_DATA_DIR: dir, BERTH_PORT: '0', BERTH_SECRET_KEY: 'x'.repeat(40) })
  expect(other.code).toBe(1)
  expect(other.text).toContain('BERTH_SECRET_KEY')
})

it.runIf(process.getuid?.() === 0)('runs as a plain user', async () => {
  const dir = await folder()
  await chmod(dir, 0o777)
  const child = spawn(
    'setpriv',
    ['--reuid=65534', '--regid=65534', '--clear-groups', process.execPath, inject('serverBundle')],
    {
      env: {
        PATH: process.env.PATH ?? '',
        BERTH_DATA_DIR: path.join(dir, 'data'),
        BERTH_PORT: '0',
        BERTH_LOCAL_ENGINES: 'false',
        BERTH_DEFAULT_MODELS: 'embedded',
      },
    },
  )
  const ended = new Promise((resolve) => child.once('exit', resolve))
  cleanUp.push(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const text = await new Promise<string>((resolve) => {
    let output = ''
    const read = (chunk: Buffer): void => {
      output += chunk.toString()
      if (output.includes('Berth is ready') || output.includes('\n')) resolve(output)
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
  })
  expect(text).toContain('Berth is ready')
})

it('upgrades a database and exits, for roll-outs', async () => {
  const database = await emptyDatabase()
  cleanUp.push(() => database.drop())
  const first = await run({ DATABASE_URL: database.url }, ['serve', '--migrate-only'])
  expect([first.code, first.text]).toEqual([0, expect.stringContaining('baseline/01_')])
  const again = await run({ DATABASE_URL: database.url }, ['serve', '--migrate-only'])
  expect([again.code, again.text]).toEqual([0, expect.not.stringContaining('.sql')])
  const embedded = await run({}, ['serve', '--migrate-only'])
  expect([embedded.code, embedded.text]).toEqual([1, expect.stringContaining('DATABASE_URL')])
})
