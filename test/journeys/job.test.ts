/** Jobs on a host of this process: its reports are what a test says. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { usd } from '../../src/base/money.ts'
import { OUTPUT_PATH, type HostOffer, type Workload } from '../../src/contract/agent.ts'
import { archiveOf, handOverOutput } from '../harness/job-output.ts'
import { joinHost, type JoinedHost } from '../harness/joined-host.ts'
import { succeed } from '../harness/journey.ts'
import { testServer, type Call, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

let server: TestServer
let host: JoinedHost
let call: Call

beforeAll(async () => {
  server = await testServer({ env: { BERTH_DRIVERS: 'host,mock' } })
  call = (await server.account({ usd: '1000' })).call
  host = await joinHost(server, 9)
})
afterAll(async () => {
  await host.close()
  await server.close()
})
afterEach(async () => {
  const { jobs } = await succeed(call, 'GET', '/v2/jobs')
  for (const { id } of jobs) await succeed(call, 'POST', `/v2/jobs/${id}/cancel`)
  await waitFor('the host to be free', () => host.workloads().length === 0)
})

const order = { image: { name: 'debian', tag: '12' }, command: ['sh', '-c', 'true'] }

async function start(change: Readonly<Record<string, unknown>> = {}, as = call): Promise<string> {
  return (await succeed(as, 'POST', '/v2/jobs', { ...order, ...change })).id
}

const read = (id: string, as = call) => succeed(as, 'GET', `/v2/jobs/${id}`)

async function untilState(id: string, ...states: string[]) {
  return waitFor(`the job to be ${states.join(' or ')}`, async () => {
    const job = await read(id)
    return states.includes(job.state) && job
  })
}

/** The workload of a task, once the host should run it. */
async function workloadOf(id: string, index = 0): Promise<Workload> {
  return waitFor(`task ${index} to reach the host`, () =>
    host.workloads().find(({ spec }) => {
      const env = spec?.program?.env
      return env?.['BERTH_JOB_ID'] === id && env['BERTH_JOB_INDEX'] === String(index)
    }),
  )
}

const handOver = (workload: Workload, files: Readonly<Record<string, string>> | null): Promise<number> =>
  handOverOutput(server, host, workload.id, files)

async function end(id: string, how: Parameters<JoinedHost['end']>[1], index = 0): Promise<Workload> {
  const workload = await workloadOf(id, index)
  await waitFor('the command to run', async () => {
    const { tasks } = await succeed(call, 'GET', `/v2/jobs/${id}/tasks?index=${index}`)
    return tasks[0].state === 'Running'
  })
  host.end(workload.id, how)
  await handOver(workload, { 'log.txt': `attempt ${index}` })
  return workload
}

async function eventsOf(id: string): Promise<string[]> {
  const { events } = await succeed(call, 'GET', `/v2/events?subject=job:${id}`)
  return events.map(({ type }: { type: string }) => type).toReversed()
}

describe('the end of a command', () => {
  test('promises 48 and 49: exit code 0 is success, in one attempt', async () => {
    const id = await start({ input: { epochs: 3 }, env: { MODE: 'fast' } })
    const { spec } = await workloadOf(id)
    expect(spec?.program).toMatchObject({
      env: { MODE: 'fast', BERTH_JOB_ID: id, BERTH_JOB_INDEX: '0', BERTH_JOB_COUNT: '1' },
      files: [{ path: '/berth/input.json', content: '{"epochs":3}' }],
      runsOnce: true,
    })
    await end(id, 0)
    const job = await untilState(id, 'Succeeded')
    expect(job).toMatchObject({ counts: { succeeded: 1 }, waiting: null, place: null })
    expect(job.task).toMatchObject({ exitCode: 0, reason: 'completed', restarts: 0, failures: 0 })
    expect(job.task.attempts).toMatchObject([{ number: 1, outcome: 'succeeded', exitCode: 0 }])
    expect(await eventsOf(id)).toEqual(['job.created', 'job.starting', 'job.running', 'job.succeeded'])
  })

  test('another exit code is a failure, and is retried as often as ordered', async () => {
    const id = await start({ retries: 1 })
    const first = await end(id, 3)
    await waitFor('the second attempt', async () => (await read(id)).task.attempts.length === 2)
    const second = await waitFor('its workload', () => host.workloads().find(({ id: other }) => other !== first.id))
    await waitFor('the command to run', async () => (await read(id)).state === 'Running')
    host.end(second.id, 4)
    await handOver(second, null)
    const { task } = await untilState(id, 'Failed')
    expect(task).toMatchObject({ exitCode: 4, failures: 2, reason: 'process_exited' })
    expect(task.attempts).toMatchObject([
      { exitCode: 3, outcome: 'failed' },
      { exitCode: 4, outcome: 'failed' },
    ])
    expect(await eventsOf(id)).toContain('job.retried')
  })

  test('an image that does not exist ends the job at once, with the reason', async () => {
    const id = await start({ retries: 5 })
    const workload = await workloadOf(id)
    host.end(workload.id, { failure: 'image_not_found', message: 'No such image.' })
    const { task } = await untilState(id, 'Failed')
    expect(task).toMatchObject({ reason: 'image_not_found', failures: 1 })
  })

  test('promise 52: charging ends with the command, not with its removal', async () => {
    const id = await start()
    const workload = await workloadOf(id)
    await untilState(id, 'Running')
    host.end(workload.id, 0)
    const { task } = await read(id)
    const rental = await waitFor('the end of the rental', async () => {
      const shown = await succeed(call, 'GET', `/v2/rentals/${task.attempts[0].rentalId}`)
      return shown.state === 'Terminating' && shown
    })
    const cost = async () => (await read(id)).costUsd
    const charged = await cost()
    await handOver(workload, { 'late.txt': 'kept' })
    await untilState(id, 'Succeeded')
    expect(await cost()).toBe(charged)
    expect(rental.exitCode).toBe(0)
  })
})

describe('what a job leaves', () => {
  test('promise 55: the output of a failed job is kept, with its result', async () => {
    const id = await start()
    const workload = await workloadOf(id)
    await untilState(id, 'Running')
    host.end(workload.id, 1)
    const files = { 'result.json': '{"loss":0.25,"text":"\\u0000"}', 'model/weights.bin': 'w'.repeat(5_000) }
    expect(await handOver(workload, files)).toBe(200)
    const { task } = await untilState(id, 'Failed')
    const [attempt] = task.attempts
    expect(attempt.result).toEqual({ loss: 0.25, text: '\0' })
    expect(attempt.output).toMatchObject({ fileCount: 2, problem: null })
    expect(attempt.output.files).toContainEqual({ path: 'model/weights.bin', bytes: 5_000 })
    const one = await fetch(`${server.url}/v2/jobs/${id}/output?path=model/weights.bin`, { headers: await keyHeader() })
    expect(await one.text()).toBe('w'.repeat(5_000))
    const all = await fetch(`${server.url}/v2/jobs/${id}/output`, { headers: await keyHeader() })
    expect(Buffer.from(await all.arrayBuffer())).toEqual(await archiveOf(files))
    const stranger = (await server.account({ usd: '1' })).call
    expect(await stranger('GET', `/v2/jobs/${id}`)).toMatchObject({ status: 404 })
    expect(await stranger('GET', `/v2/jobs/${id}/output`)).toMatchObject({ status: 404 })
  })

  test('promise 55: the output of a cancelled job is kept, once', async () => {
    const id = await start()
    const workload = await workloadOf(id)
    await untilState(id, 'Running')
    host.holdBack(workload.id, true)
    await succeed(call, 'POST', `/v2/jobs/${id}/cancel`)
    await waitFor('its end', () => host.workloads().length === 0)
    await handOver(workload, { 'part.txt': 'half' })
    host.holdBack(workload.id, false)
    const job = await untilState(id, 'Cancelled')
    await handOver(workload, { 'part.txt': 'other' })
    expect(job.task).toMatchObject({ reason: 'job_cancelled' })
    const file = await fetch(`${server.url}/v2/jobs/${id}/output?path=part.txt`, { headers: await keyHeader() })
    expect(await file.text()).toBe('half')
    expect(await eventsOf(id)).toContain('job.cancelled')
  })

  test('a host cannot hand over the output of a workload that it does not have', async () => {
    expect(await handOver({ id: 'absent' } as Workload, { 'a.txt': 'a' })).toBe(200)
    const path = `${OUTPUT_PATH}/absent`
    const answer = await fetch(`${server.url}${path}`, { headers: { authorization: host.authorize(path) } })
    expect(await answer.json()).toEqual({ isAwaited: false })
    expect((await fetch(`${server.url}${path}`)).status).toBe(401)
  })
})

describe('limits', () => {
  test('promise 51: an attempt never costs more than what is left of maxCostUsd', async () => {
    const id = await start({ maxCostUsd: '0.000001', retries: 3 })
    const { task, costUsd } = await untilState(id, 'Failed')
    expect(task.reason).toBe('max_cost')
    expect(usd(costUsd) <= usd('0.000001')).toBe(true)
    expect(task.attempts).toHaveLength(1)
  })

  test('promise 51: the time limit ends the command to the millisecond', async () => {
    const id = await start({ timeoutSeconds: 1 })
    const workload = await workloadOf(id)
    host.holdBack(workload.id, true)
    await waitFor('its end', () => host.workloads().length === 0)
    await handOver(workload, { 'part.txt': 'half' })
    host.holdBack(workload.id, false)
    const { task } = await untilState(id, 'TimedOut')
    const [attempt] = task.attempts
    expect(attempt).toMatchObject({ outcome: 'timed_out', output: { fileCount: 1 } })
    const { pricePerHourUsd } = await succeed(call, 'GET', `/v2/rentals/${attempt.rentalId}`)
    expect(usd(attempt.costUsd)).toBe((usd(pricePerHourUsd) * 1_000n) / 3_600_000n)
  })

  test('a job that refers to something that is not there is refused when it is ordered', async () => {
    const refusals = [
      [{ env: { KEY: '{{ secrets.ABSENT }}' } }, 'secret_not_found'],
      [{ volumes: [{ volumeId: 999_999, path: '/data' }] }, 'volume_not_found'],
      [{ files: [{ path: '/berth/input.json', content: '1' }] }, 'job_path_reserved'],
      [{ registryCredentialId: 'reg_absent' }, 'registry_credential_not_found'],
    ] as const
    for (const [change, reason] of refusals) {
      const { status, body } = await call('POST', '/v2/jobs', { ...order, ...change })
      expect([status >= 400 && status < 500, body.reason ?? body.error?.reason]).toEqual([true, reason])
    }
  })
})

describe('machines', () => {
  test('a simulated machine is chosen only by name', async () => {
    const id = await start({ gpus: { model: 'H100' } })
    const waiting = await waitFor('the reason', async () => {
      const job = await read(id)
      return job.waiting?.reason !== 'turn' && job
    })
    expect(waiting).toMatchObject({ state: 'Queued', waiting: { reason: 'job_only_simulated' }, place: 1 })
    await succeed(call, 'POST', `/v2/jobs/${id}/cancel`)
    const named = await start({ gpus: { machineId: 'mock-iad-h100-01' } })
    const job = await untilState(named, 'Running')
    expect(job.task.attempts).toMatchObject([{ machineId: 'mock-iad-h100-01' }])
  })

  test('promise 53: the cheapest machine that fits is taken', async () => {
    const offers: Array<Partial<HostOffer>> = [
      { clusterName: 'small', gpuRamMib: 12_000, priceUsdPerGpuHour: '0.05' },
      { clusterName: 'single', gpusTotal: 1, priceUsdPerGpuHour: '0.10' },
      { clusterName: 'cheap', priceUsdPerGpuHour: '0.20' },
      { clusterName: 'dear', priceUsdPerGpuHour: '0.90' },
    ]
    const others = await Promise.all(offers.map((offer) => joinHost(server, 9, offer)))
    const [small, single, cheap] = others
    try {
      const machineOf = async (gpus: object, change: object = {}): Promise<string> => {
        const id = await start({ gpus, ...change })
        const { task } = await untilState(id, 'Starting', 'Running')
        return task.attempts[0].machineId
      }
      // Two GPUs that both have the memory, while the cheap ones are too small or too few.
      expect(await machineOf({ count: 2, minMemoryGb: 24 })).toBe(cheap?.id)
      expect(await machineOf({ count: 1, minMemoryGb: 24 })).toBe(single?.id)
      expect(await machineOf({ count: 1 })).toBe(small?.id)
      // The next one in price, now that the cheaper ones are taken.
      expect(await machineOf({ count: 2, minMemoryGb: 24 })).toBe(host.id)
      const id = await start({ gpus: { count: 2, minMemoryGb: 24 }, maxPricePerHourUsd: '1.79' })
      const waiting = await waitFor('the reason', async () => {
        const job = await read(id)
        return job.waiting !== null && job.waiting.reason !== 'turn' && job
      })
      expect(waiting.state).toBe('Queued')
    } finally {
      const { jobs } = await succeed(call, 'GET', '/v2/jobs')
      for (const { id } of jobs) await succeed(call, 'POST', `/v2/jobs/${id}/cancel`)
      await waitFor('the hosts to be free', () => others.every((one) => one.workloads().length === 0))
      await Promise.all(others.map((one) => one.close()))
    }
  })

  test('at equal prices, a machine that has the image of the account comes first', async () => {
    const price = { priceUsdPerGpuHour: '0.03' }
    const others = await Promise.all([1, 2, 3].map((n) => joinHost(server, 9, { clusterName: `warm-${n}`, ...price })))
    try {
      const ids = others.map(({ id }) => id).toSorted()
      const last = ids.at(-1)
      const machineOf = async (change: object, by = call): Promise<string> => {
        const { id } = await succeed(by, 'POST', '/v2/jobs', { ...order, ...change })
        const attempt = await waitFor('its machine', async () => (await read(id, by)).task.attempts[0])
        await succeed(by, 'POST', `/v2/jobs/${id}/cancel`)
        await waitFor('its end', async () => (await read(id, by)).endedAt !== null)
        return attempt.machineId
      }
      const warm = { image: { name: 'debian', tag: 'warm' } }
      expect(await machineOf({})).toBe(ids[0])
      expect(await machineOf({ ...warm, gpus: { machineId: last } })).toBe(last)
      expect(await machineOf(warm)).toBe(last)
      expect(await machineOf({ image: { name: 'debian', tag: 'cold' } })).toBe(ids[0])
      const stranger = await server.account({ usd: '10' })
      expect(await machineOf(warm, stranger.call)).toBe(ids[0])
    } finally {
      await waitFor('the hosts to be free', () => others.every((one) => one.workloads().length === 0))
      await Promise.all(others.map((one) => one.close()))
    }
  })

  test('a task waits while its account has no money, and starts when it has', async () => {
    const poor = await server.account({ usd: '0' })
    const id = await start({}, poor.call)
    const waiting = await waitFor('the reason', async () => {
      const job = await read(id, poor.call)
      return job.waiting?.reason === 'insufficient_balance' && job
    })
    expect(waiting.state).toBe('Queued')
    await succeed(server.operator, 'POST', `/v2/operator/accounts/${poor.id}/credit`, {
      amountUsd: '50',
      reason: 'now',
    })
    await waitFor('its start', async () => ['Starting', 'Running'].includes((await read(id, poor.call)).state))
    await succeed(poor.call, 'POST', `/v2/jobs/${id}/cancel`)
  })
})

async function keyHeader(): Promise<Record<string, string>> {
  const { key } = await succeed(call, 'POST', '/v2/api-keys', { name: 'download', scopes: ['compute:read'] })
  return { authorization: `Bearer ${key}` }
}
