/** A new user's first commands: a command in a container, an image that only the host has, one that does not exist. */
import { execFile } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { agentProgram } from '../harness/agent-process.ts'
import { whyNoDockerLab } from '../harness/docker-lab.ts'
import {
  instancesPath,
  rentInstance,
  rentOnline,
  terminate,
  untilGone,
  untilStatus,
  type Instance,
} from '../harness/instance.ts'
import { succeed } from '../harness/journey.ts'
import { startMachines, type ContainerHost, type Customer, type Machines, type Ran } from '../harness/machines.ts'
import { waitFor } from '../harness/wait.ts'

const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`
const COMMAND_MS = 60_000
const RUNS = 10
/** Enough for a busy machine. */
const GIVE_UP_MS = 40_000

interface Failed {
  readonly type: string
  readonly data: { readonly name?: string; readonly reason?: string }
}

describe.skipIf(why !== undefined)(`commands and images of containers${skipped}`, () => {
  let machines: Machines
  let host: ContainerHost
  let ada: Customer
  let first: Instance

  beforeAll(async () => {
    machines = await startMachines({ hosts: 0 })
    host = await machines.addHost({ args: ['--allow-local-images'] })
    ada = await machines.customer()
    const { name, tag } = machines.registry.images.busybox
    await host.docker.docker('pull', `${name}:${tag}`)
    await host.docker.docker('tag', `${name}:${tag}`, 'only-here:2')
  }, 120_000)
  afterAll(() => machines.close())

  /** Runs the command as in a script: no terminal and empty stdin. */
  function exec(name: string, ...command: string[]): Promise<Ran> {
    const env = { PATH: process.env['PATH'] ?? '', BERTH_URL: machines.server.url, BERTH_KEY: ada.key }
    return new Promise((resolve) => {
      const args = [agentProgram(), 'exec', name, '--', ...command]
      const child = execFile(process.execPath, args, { env, timeout: COMMAND_MS }, (_, out, error) =>
        resolve({ code: child.exitCode, out, error }),
      )
      child.stdin?.end()
    })
  }

  test('rents an image that only the host has, by its name', async () => {
    first = await rentOnline(ada, host, { name: 'only-here', tag: '2' })
    expect(first.instance.status).toBe('online')
  })

  test('short commands end with their exit codes', async () => {
    const { id } = first
    for (let n = 0; n < RUNS; n += 1) expect(await exec(id, 'true')).toMatchObject({ code: 0, out: '' })
    for (const code of [3, 0]) expect((await exec(id, 'sh', '-c', `exit ${code}`)).code).toBe(code)
    expect((await exec(id, 'echo', 'two  words')).out.trim()).toBe('two  words')
    await terminate(ada, id)
  })

  test('publishes ports without naming an image', async () => {
    const body = { cluster_name: 'lab', node_name: host.id, gpu_count: 1, ports: [8080] }
    const { instance_id: name } = await succeed(ada.call, 'POST', `${instancesPath}/create`, body)
    expect((await untilStatus(ada, name, 'online')).portMappings).toHaveLength(1)
    await terminate(ada, name)
  })

  test('a restarted agent keeps the images allowed on its first run', async () => {
    await host.stopAgent('stop')
    await host.startAgent('kept')
    for (const image of [{ name: 'only-here', tag: '2' }, machines.registry.images.busybox, undefined]) {
      const { id, instance } = await rentOnline(ada, host, image)
      expect(instance.status).toBe('online')
      await terminate(ada, id)
      await untilGone(ada, id)
    }
  })

  test('an image from an unreachable registry fails within seconds, with a reason', async () => {
    const startedMs = performance.now()
    const name = await rentInstance(ada, host, { name: `${machines.network.bridgeAddress}:9/x`, tag: '1' })
    await waitFor('its failure', async () => {
      const { events } = await succeed(ada.call, 'GET', '/v2/events?limit=100')
      const failed = (events as Failed[]).find(({ type, data }) => type === 'rental.failed' && data.name === name)
      return failed?.data.reason === 'registry_unreachable'
    })
    expect(performance.now() - startedMs).toBeLessThan(GIVE_UP_MS)
  })
})
