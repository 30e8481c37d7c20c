/** Shutdown: through `npm start`, directly, and with a drain period for load balancers. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdtemp, readdir, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { testDatabase } from './harness/database.ts'
import { removeFolder } from './harness/leftover.ts'
import { startServerProcess } from './lab/process.ts'
import { caller } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const cleanUp: Array<() => Promise<unknown>> = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).toReversed()) await step()
})

async function folder(): Promise<string> {
  const dir = await mkdtemp(path.join(os.tmpdir(), 'berth-stop-'))
  cleanUp.push(() => removeFolder(dir))
  return dir
}

/** The sources, for a separate build next to them. */
async function checkout(): Promise<string> {
  const dir = await folder()
  const large = ['node_modules', 'models']
  const made = ['.git', '.berth', 'dist', 'test-results']
  for (const name of (await readdir('.')).filter((one) => !large.includes(one) && !made.includes(one)))
    await cp(name, path.join(dir, name), { recursive: true })
  for (const name of large) await symlink(path.resolve(name), path.join(dir, name))
  return dir
}

function pidIn(file: string): number {
  return Number.parseInt(readFileSync(file, 'utf8'), 10)
}

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`)
}

it('npm start passes SIGTERM on to the server, which stops PostgreSQL and releases its lock', async () => {
  const dir = await checkout()
  const data = path.join(dir, 'data')
  const npm = spawn('npm', ['start'], {
    cwd: dir,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: process.env.HOME ?? '',
      BERTH_DATA_DIR: data,
      BERTH_PORT: '0',
      BERTH_LOCAL_ENGINES: 'false',
      BERTH_DEFAULT_MODELS: 'embedded',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const ended = new Promise<void>((resolve) => npm.once('exit', () => resolve()))
  let isRunning = true
  void ended.then(() => (isRunning = false))
  const started: number[] = []
  cleanUp.push(async () => {
    if (isRunning) npm.kill('SIGKILL')
    for (const pid of started.filter(isAlive)) process.kill(pid, 'SIGKILL')
    await ended
  })
  await waitFor('the server', () => output.includes('Berth is ready') || !isRunning, 120_000)
  expect(output).toContain('Berth is ready')
  const server = pidIn(path.join(data, 'berth.pid'))
  const postgres = pidIn(path.join(data, 'postgres', 'postmaster.pid'))
  started.push(server, postgres)

  npm.kill('SIGTERM')
  await ended
  await waitFor('the end of the server and its PostgreSQL', () => !isAlive(server) && !isAlive(postgres))
  expect(existsSync(path.join(data, 'berth.pid'))).toBe(false)
  expect(existsSync(path.join(data, 'postgres', 'postmaster.pid'))).toBe(false)
})

it('reports that it is draining while it still answers, and stops at a second signal', async () => {
  const database = await testDatabase()
  cleanUp.push(() => database.drop())
  const env = { DATABASE_URL: database.url, BERTH_DRIVERS: 'mock' }
  // Longer than this test: only the second signal can end it.
  const server = await startServerProcess({ ...env, BERTH_DATA_DIR: await folder(), BERTH_DRAIN_SECONDS: '600' })
  cleanUp.push(() => server.killTree())
  const anyone = caller(server.url, null)
  expect((await anyone('GET', '/readyz')).status).toBe(200)
  const stopped = server.stop()
  await waitFor('the drain', async () => (await anyone('GET', '/readyz')).status === 503)
  expect((await anyone('GET', '/readyz')).body).toEqual({ status: 'not ready', reason: 'draining', checks: {} })
  const healthy = await fetch(`${server.url}/healthz`)
  // Its next request goes to another server.
  expect([healthy.status, healthy.headers.get('connection')]).toEqual([200, 'close'])
  // On a new connection, like a client that has not noticed the drain yet.
  const late = await fetch(`${server.url}/openapi.json`, { headers: { Connection: 'close' } })
  expect(late.status).toBe(200)
  const again = await server.stop()
  expect(again.code).toBe(0)
  expect((await stopped).code).toBe(0)
})

it('stops on its own when the drain period is over', async () => {
  const database = await testDatabase()
  cleanUp.push(() => database.drop())
  const env = { DATABASE_URL: database.url, BERTH_DRIVERS: 'mock' }
  const server = await startServerProcess({ ...env, BERTH_DATA_DIR: await folder(), BERTH_DRAIN_SECONDS: '0.2' })
  cleanUp.push(() => server.killTree())
  const { code, tookMs } = await server.stop()
  expect(code).toBe(0)
  expect(tookMs).toBeGreaterThanOrEqual(200)
  expect(server.output()).toContain('Draining')
})
