/** P62: the GitHub Action, its two steps run as the runner runs them: inputs and state in the environment, files for outputs. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { runCommands } from './harness/agent-client.ts'
import { joinHost, type JoinedHost } from './harness/joined-host.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

/** Node 22 and the runner's Node 24 have WebSocket. */
const nodeFlags = Number.parseInt(process.versions.node, 10) < 22 ? ['--experimental-websocket', '--no-warnings'] : []

let server: TestServer
let host: JoinedHost
let customer: Awaited<ReturnType<TestServer['account']>>
let folder: string
let jobs = 0
const ran = runCommands('')

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-action-'))
  server = await testServer({ env: { BERTH_DRIVERS: 'host' } })
  host = await joinHost(server, 9, { gpusTotal: 8 }, ran.answer)
  customer = await server.account({ usd: '100' })
})
afterAll(async () => {
  await host?.close()
  await server?.close()
  await removeFolder(folder)
})

interface Step {
  readonly code: number | null
  readonly output: string
}

/** One step of a workflow: `main`, then `post` with the state that it left. */
function startJob(inputs: Readonly<Record<string, string>>) {
  jobs += 1
  const files = { GITHUB_STATE: path.join(folder, `state-${jobs}`), GITHUB_OUTPUT: path.join(folder, `output-${jobs}`) }
  const defaults = {
    url: server.url,
    key: customer.key,
    gpu: '4090',
    image: 'busybox:1',
    'spending-limit': '2',
    hours: '1',
  }
  const given = Object.entries({ ...defaults, ...inputs }).map(([name, value]) => [
    `INPUT_${name.toUpperCase()}`,
    value,
  ])
  const env = { PATH: process.env['PATH'], GITHUB_RUN_ID: '123', GITHUB_RUN_ATTEMPT: String(jobs), ...files }
  const run = (script: string, state: Readonly<Record<string, string>> = {}): [ChildProcess, Promise<Step>] => {
    const child = spawn(process.execPath, [...nodeFlags, path.resolve('action', script)], {
      env: { ...env, ...Object.fromEntries(given), ...state } as NodeJS.ProcessEnv,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    child.stdout.on('data', (data: Buffer) => (output += data.toString()))
    child.stderr.on('data', (data: Buffer) => (output += data.toString()))
    return [child, once(child, 'close').then(([code]) => ({ code: code as number | null, output }))]
  }
  const linesOf = async (file: string): Promise<Record<string, string>> => {
    const text = await readFile(file, 'utf8').catch(() => '')
    const lines = text.split('\n').filter((line) => line !== '')
    return Object.fromEntries(lines.map((line) => line.split(/=(.*)/s).slice(0, 2)))
  }
  return {
    main: () => run('main.mjs'),
    post: async (): Promise<Step> => {
      const state = Object.entries(await linesOf(files.GITHUB_STATE)).map(([name, value]) => [`STATE_${name}`, value])
      return run('post.mjs', Object.fromEntries(state) as Record<string, string>)[1]
    },
    state: () => linesOf(files.GITHUB_STATE),
    outputs: () => linesOf(files.GITHUB_OUTPUT),
  }
}

const living = async (): Promise<string[]> =>
  (await succeed(customer.call, 'GET', '/v2/rentals')).rentals
    .filter((one: { state: string }) => !['Terminating', 'Terminated', 'Failed'].includes(one.state))
    .map((one: { name: string }) => one.name)

test('P62: rents with limit and end, runs the command, and terminates', async () => {
  const job = startJob({ run: 'echo "$((6 * 7)) out"; echo bad >&2', env: 'A=1\nB=two words' })
  const main = await job.main()[1]
  expect([main.code, main.output]).toEqual([0, expect.stringContaining('42 out')])
  expect(main.output).toContain('bad')
  const { rental = '', 'exit-code': code } = await job.outputs()
  expect(code).toBe('0')
  const order = await succeed(customer.call, 'GET', `/v2/rentals/${rental}`)
  expect(order).toMatchObject({ spendingLimitUsd: '2.000000000', label: (await job.state())['label'] })
  expect(Date.parse(order.autoTerminateAt) - server.app.clock.now()).toBeLessThan(3_600_000)
  expect((await job.post()).code).toBe(0)
  expect(await living()).toEqual([])
})

test('P62: a failed command fails the step, and the machine ends', async () => {
  const job = startJob({ run: 'exit 7' })
  const main = await job.main()[1]
  expect([main.code, (await job.outputs())['exit-code']]).toEqual([1, '7'])
  expect(await living()).toHaveLength(1)
  expect((await job.post()).code).toBe(0)
  expect(await living()).toEqual([])
})

describe('P62: a step that was cut off', () => {
  test('while its command ran: the command and the machine end', async () => {
    const job = startJob({ run: 'exec sleep 600' })
    const before = ran.commands.length
    const [child, ended] = job.main()
    const command = await waitFor('the command', () => ran.commands[before])
    child.kill('SIGKILL')
    await ended
    expect((await job.post()).code).toBe(0)
    await waitFor('the end of the command', () => command.isOver)
    expect(await living()).toEqual([])
  })

  test('before the answer to its order: the machine is found by its label', async () => {
    const job = startJob({ run: 'true' })
    await job.main()[1]
    const { label = '' } = await job.state()
    await writeState(job, label)
    expect((await job.post()).code).toBe(0)
    expect(await living()).toEqual([])
  })

  test('with its runner: the order itself has the end', async () => {
    const job = startJob({ run: 'true', hours: '0.001' })
    await job.main()[1]
    expect(await waitFor('the end of the machine', async () => (await living()).length === 0)).toBe(true)
  })
})

/** The state as it was written before the order. */
async function writeState(job: ReturnType<typeof startJob>, label: string): Promise<void> {
  const { rental } = await job.state()
  expect(rental).toBeDefined()
  const file = path.join(folder, `state-${jobs}`)
  await writeFile(file, `label=${label}\n`)
}

test('P62: without limit or end nothing is rented, and post has nothing to do', async () => {
  const wrong = [
    { 'spending-limit': '' },
    { 'spending-limit': '0' },
    { hours: '' },
    { hours: 'many' },
    { gpu: '' },
    { run: '' },
  ]
  for (const inputs of wrong) {
    const job = startJob({ run: 'true', ...inputs })
    const main = await job.main()[1]
    expect([main.code, main.output]).toEqual([1, expect.stringContaining('::error::')])
    expect(await job.state()).toEqual({})
    expect((await job.post()).code).toBe(0)
  }
  expect(await living()).toEqual([])
})

test('P62: the runner masks the key, and action.yml names what the steps read', async () => {
  const action = parse(await readFile('action/action.yml', 'utf8')) as {
    inputs: Record<string, { required?: boolean }>
    runs: Record<string, string>
  }
  expect(action.runs).toEqual({ using: 'node24', main: 'main.mjs', post: 'post.mjs', 'post-if': 'always()' })
  const required = Object.entries(action.inputs).filter(([, one]) => one.required === true)
  expect(required.map(([name]) => name).toSorted()).toEqual(['hours', 'key', 'run', 'spending-limit', 'url'])
  const job = startJob({ run: 'true', hours: 'none' })
  expect((await job.main()[1]).output).toContain(`::add-mask::${customer.key}`)
})
