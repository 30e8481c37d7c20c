/**
 * `berth operator providers smoke` from the question to the last key at the cloud: the server, the simulated cloud and the
 * login are real.
 */
import { spawn } from 'node:child_process'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { startLoopbackSshd, type LoopbackSshd } from '../../../test/harness/loopback-sshd.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { systemClock } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import { LambdaSim } from '../../../test/sim/clouds/lambda/cloud.ts'
import { needs } from '../../../test/needs.ts'

needs('build', 'sshd')

const quick = { clock: systemClock, bootMs: 300, destroyMs: 200 }
const sim = new LambdaSim(quick)
/** Preferred by placement. */
const other = new LambdaSim(quick)
let [cli, sshd]: [CliTest, LoopbackSshd] = [undefined as never, undefined as never]
let url: string
const smoke = ['operator', 'providers', 'smoke', 'main', '--spend-up-to']

beforeAll(async () => {
  url = await sim.server.listen()
  cli = await startCliTest({ BERTH_DRIVERS: 'host', BERTH_ALLOW_PRIVATE_ADDRESSES: 'true' })
  sshd = await startLoopbackSshd({ nvidiaSmi: 'NVIDIA H100 80GB HBM3, 81559 MiB' })
  vi.stubEnv('PATH', `${sshd.programs}:${process.env['PATH']}`)
  for (const [name, baseUrl, preference] of [
    ['main', url, 0],
    ['other', await other.server.listen(), 10],
  ]) {
    const account = { name, provider: 'lambda', baseUrl, credentials: { apiKey: sim.apiKey } }
    const body = { ...account, preference, markupPercentage: 20 }
    const { status } = await cli.server.operator('POST', '/v2/operator/providers', body)
    if (status !== 200) throw new Error(`adding ${name} was answered with ${status}`)
  }
  await waitFor('offers on sale', async () => {
    const { body } = await cli.server.operator('GET', '/v2/operator/providers/main/offers')
    return (body.offers as Array<{ sale: unknown }>).some(({ sale }) => sale !== null)
  })
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await cli.close()
  await Promise.all([sshd.close(), sim.server.close(), other.server.close()])
})

/** The machine knows the keys that the cloud was given for it, as its image would fetch them. */
async function installKeys(): Promise<void> {
  const headers = { Authorization: `Bearer ${sim.apiKey}` }
  const keys = await waitFor('a key at the cloud', async () => {
    const answer = await fetch(`${url}/api/v1/ssh-keys`, { headers })
    const { data } = (await answer.json()) as { data: Array<{ public_key: string }> }
    return data.length > 0 && data
  })
  await sshd.authorize(keys.map((key) => key.public_key))
}

/** Unused keys are swept twice a minute; tests do not wait for that. */
async function sweepWhenEnded(): Promise<void> {
  const { database } = cli.server.app
  await waitFor('the machine to end', () => {
    const left = sim.leftovers()
    return left.length > 0 && left.every((one) => one.startsWith('key'))
  })
  await waitFor('the rental to be released', async () => {
    const { rows } = await database.pool.query('select 1 from rental where released_at is null')
    return rows.length === 0
  })
  // Once: each sweep asks the cloud for lists, whose calls are paced.
  database.onCommit(new Set(['reap']))
  await waitFor('an empty account', () => sim.leftovers().length === 0)
}

async function expectNothingLeft(): Promise<void> {
  const [{ body: keys }, { body: balance }] = await Promise.all([
    cli.server.operator('GET', '/v2/ssh-keys'),
    cli.server.operator('GET', '/v2/customer/balance'),
  ])
  expect([sim.leftovers(), keys.sshKeys, usd(balance.heldUsd)]).toEqual([[], [], 0n])
  expect(sim.server.violations).toEqual([])
  expect(other.launches().size).toBe(0)
}

test('asks first, and orders nothing without a yes or below the cost of a test', async () => {
  const cancelled = await cli.berth([...smoke, '2'], {}, { answers: ['n'] })
  expect([cancelled.code, cancelled.error]).toEqual([1, expect.stringMatching(/gpu_1x_h100_sxm5 .*\n.*\$3\.29\/hr/)])
  expect((await cli.berth([...smoke, '2'])).code).toBe(2)
  const small = await cli.berth([...smoke, '0.10', '--yes'])
  expect([small.code, small.error]).toEqual([1, expect.stringContaining('--spend-up-to')])
  expect(sim.launches().size).toBe(0)
})

test('rents at this account, logs in, ends the machine, and leaves nothing behind', async () => {
  const [ran] = await Promise.all([
    cli.berth([...smoke, '2', '--yes', '--json']),
    installKeys().then(() => sweepWhenEnded()),
  ])
  const result = JSON.parse(ran.out)
  expect(result).toMatchObject({
    ok: true,
    failure: null,
    type: 'gpu_1x_h100_sxm5',
    login: { program: 'nvidia-smi', output: ['NVIDIA H100 80GB HBM3, 81559 MiB'] },
    left: [],
    capUsd: '2.000000000',
  })
  expect(ran.code).toBe(0)
  expect(usd(result.costUsd)).toBeGreaterThan(0n)
  expect(usd(result.costUsd)).toBeLessThan(usd('2'))
  await expectNothingLeft()
})

test('cleans up after a refused order, and goes to no other account', async () => {
  const body = { error: { code: 'instance-operations/launch/insufficient-capacity', message: 'None left.' } }
  sim.server.arm('launchInstance', { kind: 'answer', answer: { status: 400, body } })
  const { code, out } = await cli.berth([...smoke, '2', '--yes', '--json'])
  expect([code, JSON.parse(out)]).toMatchObject([1, { ok: false, login: null, left: [], costUsd: '0.000000000' }])
  await expectNothingLeft()
  await waitFor('the offer to be back on sale', async () => {
    cli.server.app.database.onCommit(new Set(['inventory']))
    const { body: listed } = await cli.server.operator('GET', '/v2/operator/providers/main/offers')
    return (listed.offers as Array<{ sale: { free: number } | null }>).some(({ sale }) => (sale?.free ?? 0) > 0)
  })
})

test('Ctrl-C ends the machine and waits until everything is gone', async () => {
  const before = sim.launches().size
  await sshd.authorize([])
  const child = spawn(process.execPath, [cli.program, ...smoke, '2', '--yes'], {
    env: cli.environment({ PATH: process.env['PATH'] ?? '' }),
  })
  let [output, code]: [string, number | null | undefined] = ['', undefined]
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.once('close', (ended) => (code = ended))
  await waitFor('the machine to run', () => sim.launches().size > before && output.includes('Logging in'))
  child.kill('SIGINT')
  await sweepWhenEnded()
  await waitFor('the command to end', () => code !== undefined)
  expect([code, output]).toEqual([1, expect.stringContaining('Interrupted')])
  await expectNothingLeft()
})
