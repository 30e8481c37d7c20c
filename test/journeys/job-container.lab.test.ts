/** Jobs on real hosts: the daemon, the registry and the agents are real; only the GPUs are declared. */
import { mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/instant.ts'
import { runCli } from '../../src/cli/program.ts'
import { removeFolder } from '../harness/leftover.ts'
import { checkLedgerAndEngines, succeed } from '../harness/journey.ts'
import { whyNoDockerLab } from '../lab/docker-lab.ts'
import { startMachines, type Customer, type Machines } from '../lab/machines.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('docker', 'build')

const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`
const LONG_MS = 300_000
const VOLUMES = '/v2/alpha/on-demand/storage-volumes'

describe.skipIf(why !== undefined)(`jobs on hosts${skipped}`, () => {
  let machines: Machines
  let ada: Customer
  let image: { readonly name: string; readonly tag: string }

  beforeAll(async () => {
    machines = await startMachines({ hosts: 2, env: { BERTH_STORAGE_OVERCOMMIT: '1000' } })
    ada = await machines.customer()
    const { name, tag } = machines.registry.images.busybox
    image = { name, tag }
  }, LONG_MS)
  afterAll(() => machines.close())

  const start = async (script: string, change: object = {}): Promise<string> =>
    (await succeed(ada.call, 'POST', '/v2/jobs', { image, command: ['/bin/sh', '-c', script], ...change })).id
  const read = (id: string) => succeed(ada.call, 'GET', `/v2/jobs/${id}`)
  const untilEnd = (id: string) =>
    waitFor(
      'the end of the job',
      async () => {
        const job = await read(id)
        return job.endedAt !== null && job
      },
      120_000,
    )
  const untilRunning = (id: string) =>
    waitFor(
      'the job to run',
      async () => {
        const job = await read(id)
        return job.state === 'Running' && job
      },
      120_000,
    )
  const fileOf = async (id: string, path: string): Promise<string> => {
    const url = `${machines.server.url}/v2/jobs/${id}/output?path=${encodeURIComponent(path)}`
    return (await fetch(url, { headers: { authorization: `Bearer ${ada.key}` } })).text()
  }

  test(
    'promises 48, 52 and 55: input, output, result, log and the bill of a command',
    { timeout: LONG_MS },
    async () => {
      const script = [
        'cat /berth/input.json; echo; echo index $BERTH_JOB_INDEX',
        'mkdir -p /berth/output/deep && echo kept > /berth/output/deep/file.txt',
        'echo "{\\"loss\\":0.5}" > /berth/output/result.json; sleep 2; cut -d" " -f1 /proc/uptime > /berth/output/end; exit 7',
      ].join('\n')
      const job = await untilEnd(await start(script, { input: { epochs: 3 } }))
      expect([job.state, job.task.exitCode, job.task.reason]).toEqual(['Failed', 7, 'process_exited'])
      const [attempt] = job.task.attempts
      expect(attempt.result).toEqual({ loss: 0.5 })
      expect(attempt.output).toMatchObject({ fileCount: 3, problem: null })
      expect(await fileOf(job.id, 'deep/file.txt')).toBe('kept\n')
      const log = await ada.call('GET', `/v2/rentals/${attempt.rentalId}/logs`)
      expect(String(log.body)).toContain('{"epochs":3}')
      expect(String(log.body)).toContain('index 0')
      const { segments } = await bill(attempt.rentalId)
      // The uptime of this machine is that of its containers, to the hundredth of a second.
      const endedAgoMs = (os.uptime() - Number(await fileOf(job.id, 'end'))) * 1_000
      expect(segments.endedAt - (systemClock.now() - endedAgoMs)).toBeLessThanOrEqual(2_000)
    },
  )

  /** When the charged time of a rental ended. */
  async function bill(rentalId: number): Promise<{ readonly segments: { readonly endedAt: number } }> {
    const row = await machines.server.app.database.db
      .selectFrom('segment')
      .select('ended_at')
      .where('rental_id', '=', rentalId)
      .executeTakeFirstOrThrow()
    return { segments: { endedAt: Number(row.ended_at) } }
  }

  test(
    'promise 55: a cancelled command gets the stop signal, and its output is kept',
    { timeout: LONG_MS },
    async () => {
      // SIGHUP is the STOPSIGNAL of the images of the lab.
      const script =
        'mkdir -p /berth/output; trap "echo saved > /berth/output/state; exit 0" HUP; echo ready; while true; do sleep 0.2; done'
      const id = await start(script)
      await untilRunning(id)
      // A shell without its trap would end at once.
      await waitFor('the trap to be set', async () => {
        const { rentalId } = (await read(id)).task.attempts[0]
        return String((await ada.call('GET', `/v2/rentals/${rentalId}/logs`)).body).includes('ready')
      })
      await succeed(ada.call, 'POST', `/v2/jobs/${id}/cancel`)
      const job = await untilEnd(id)
      expect(job.state).toBe('Cancelled')
      expect(job.task.attempts[0].output).toMatchObject({ fileCount: 1, problem: null })
      expect(await fileOf(id, 'state')).toBe('saved\n')
    },
  )

  test(
    'promises 51 and 55: a command that is out of time ends, and its output is kept',
    { timeout: LONG_MS },
    async () => {
      const id = await start(
        'mkdir -p /berth/output; echo part > /berth/output/part; trap "" HUP; while true; do sleep 1; done',
        {
          timeoutSeconds: 3,
        },
      )
      const job = await untilEnd(id)
      expect([job.state, await fileOf(id, 'part')]).toEqual(['TimedOut', 'part\n'])
    },
  )

  test('each task of an array has its index, and the number of tasks', { timeout: LONG_MS }, async () => {
    const script = 'mkdir -p /berth/output; echo "[$BERTH_JOB_INDEX,$BERTH_JOB_COUNT]" > /berth/output/result.json'
    const id = await start(script, { array: { count: 4 } })
    expect(await untilEnd(id)).toMatchObject({ state: 'Succeeded', counts: { succeeded: 4 } })
    const { tasks } = await succeed(ada.call, 'GET', `/v2/jobs/${id}/tasks`)
    const results = (tasks as Array<{ attempts: Array<{ result: unknown }> }>).map(
      ({ attempts }) => attempts[0]?.result,
    )
    expect(results).toEqual([0, 1, 2, 3].map((index) => [index, 4]))
  })

  test('output on a volume stays there, and only the result is handed over', { timeout: LONG_MS }, async () => {
    const storage = [{ region: 'us-central-1', perGbHourUsd: '0.0001', enabled: true }]
    await succeed(machines.server.operator, 'PUT', '/v2/operator/price-book', { storage, reason: 'for the test' })
    const [host] = machines.hosts
    const volume = { region: 'us-central-1', label: 'results', sizeInGb: 256, nodeName: host?.id }
    const { storageVolumeId: volumeId } = await succeed(ada.call, 'POST', VOLUMES, volume)
    await waitFor('the volume', async () => {
      const [one] = await succeed(ada.call, 'GET', VOLUMES)
      return one.status === 'active'
    })
    const mount = { volumes: [{ volumeId, path: '/berth/output' }] }
    const script = 'echo weights > /berth/output/model; echo "{\\"loss\\":0.5}" > /berth/output/result.json'
    const { task } = await untilEnd(await start(script, mount))
    expect(task.attempts[0]).toMatchObject({
      machineId: host?.id,
      outcome: 'succeeded',
      result: { loss: 0.5 },
      output: { files: [{ path: 'result.json' }], fileCount: 1, problem: null },
    })
    const again = await untilEnd(await start('test "$(cat /berth/output/model)" = weights', mount))
    expect(again.state).toBe('Succeeded')
  })

  test('promise 49: a command that ends while its agent is dead ran once', { timeout: LONG_MS }, async () => {
    const id = await start(
      'mkdir -p /berth/output; echo run >> /berth/output/runs; sleep 4; echo end >> /berth/output/runs',
    )
    const { task } = await untilRunning(id)
    const host = machines.hosts.find((one) => one.id === task.attempts[0].machineId)
    await host?.stopAgent('kill')
    await waitFor(
      'the command to end',
      async () => (await host?.docker.docker('ps', '-q', '--filter', 'label=berth.id')) === '',
    )
    await host?.startAgent()
    const job = await untilEnd(id)
    expect([job.state, job.task.restarts]).toEqual(['Succeeded', 0])
    expect(await fileOf(id, 'runs')).toBe('run\nend\n')
  })

  /** `berth run` of a script, with what it has printed. */
  function run(folder: string, script: string) {
    const screen = { out: '', error: '' }
    const words = ['run', '--image', `${image.name}:${image.tag}`, '--output', folder, '--', '/bin/sh', '-c', script]
    const ended = runCli(words, {
      env: { BERTH_URL: machines.server.url, BERTH_KEY: ada.key, XDG_CONFIG_HOME: folder },
      color: { out: false, error: false },
      write: (text) => void (screen.out += text),
      writeError: (text) => void (screen.error += text),
      readFile: () => undefined,
      readInput: () => undefined,
    })
    return { screen, ended }
  }

  test(
    'promise 58: berth run shows the log live, and exits with the code of the job',
    { timeout: LONG_MS },
    async () => {
      const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-run-'))
      const script =
        'echo first; until [ -e /tmp/go ]; do sleep 0.2; done; mkdir -p /berth/output; echo kept > /berth/output/file; echo last; exit 7'
      const { screen, ended } = run(folder, script)
      await waitFor(
        () => `the first line: ${JSON.stringify(screen)}`,
        () => screen.out.includes('first\n'),
      )
      const { jobs } = await succeed(ada.call, 'GET', '/v2/jobs')
      const { task, endedAt } = await read(jobs[0].id)
      expect(endedAt).toBeNull()
      const host = machines.hosts.find(({ id }) => id === task.attempts[0].machineId)
      const [container = ''] = (await host?.ours()) ?? []
      await host?.docker.docker('exec', container, 'touch', '/tmp/go')
      expect(await ended).toBe(7)
      expect(screen.out).toContain('first\nlast\n')
      expect(screen.out).toContain('Exit code 7.')
      // A command may have ended before its log can be followed.
      const short = run(folder, 'echo at once')
      expect(await short.ended).toBe(0)
      expect(short.screen.out).toContain('at once\n')
      expect(await readFile(path.join(folder, 'file'), 'utf8')).toBe('kept\n')
      await removeFolder(folder)
    },
  )

  test('promise 54: a job whose host is lost starts again elsewhere', { timeout: LONG_MS }, async () => {
    const id = await start('mkdir -p /berth/output; hostname > /berth/output/name; sleep 20')
    const { task } = await untilRunning(id)
    const lost = machines.hosts.find((one) => one.id === task.attempts[0].machineId)
    const lostAt = systemClock.now()
    await lost?.stopAgent('kill')
    const job = await waitFor(
      'the second attempt',
      async () => {
        const shown = await read(id)
        return shown.task.attempts.length === 2 && shown
      },
      120_000,
    )
    expect(systemClock.now() - lostAt).toBeLessThanOrEqual(60_000)
    const [first, second] = job.task.attempts
    expect([first.outcome, first.reason]).toEqual(['lost', 'job_lost'])
    expect(second.machineId).not.toBe(first.machineId)
    await lost?.startAgent()
    expect(await untilEnd(id)).toMatchObject({ state: 'Succeeded' })
    await waitFor(
      'both hosts to be free',
      async () => (await Promise.all(machines.hosts.map((one) => one.ours()))).flat().length === 0,
      120_000,
    )
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  })
})
