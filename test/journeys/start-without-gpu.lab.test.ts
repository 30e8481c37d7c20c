/**
 * A customer whose GPU was rented to somebody else starts a stopped container without it, fetches a file over SSH, and
 * later starts it with a GPU again. The engine, the agent, the command line and the SSH client are real.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { nanoUsdOf, usd } from '../../src/base/money.ts'
import { agentProgram } from '../lab/agent-process.ts'
import { whyNoDockerLab } from '../lab/docker-lab.ts'
import {
  charged,
  LAB_PRICE,
  rentalIdOf,
  rentInstance,
  terminate,
  untilGone,
  untilStatus,
  type Instance,
} from '../harness/instance.ts'
import { checkLedgerAndEngines, succeed } from '../harness/journey.ts'
import { startMachines, type ContainerHost, type Customer, type Machines } from '../lab/machines.ts'
import { needs } from '../needs.ts'

needs('docker', 'build')

const rentals = '/v2/rentals'
const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`

describe.skipIf(why !== undefined)(`containers without their GPUs${skipped}`, () => {
  let machines: Machines
  let host: ContainerHost
  let ada: Customer
  let ben: Customer

  beforeAll(async () => {
    machines = await startMachines({ hosts: 1, gpus: 'rtx4090:1' })
    const [first] = machines.hosts
    if (first === undefined) throw new Error('there is no host')
    host = first
    ada = await machines.customer()
    ben = await machines.customer()
  }, 120_000)
  afterAll(() => machines.close())

  test('cpuOnly starts the same disk without a GPU, and a stop and a start bring the GPU back (promise 6; issue 31, 16)', async () => {
    const online = await rentSmall(ada)
    expect((await ada.ssh(online.sshCommand, 'echo kept > /root/note')).code).toBe(0)
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/stop`)
    await untilStatus(ada, online.id, 'stopped')
    const other = await rentSmall(ben)

    const started = await berth('start', online.id, '--if-no-gpu', 'cpu-only', '--json')
    expect(JSON.parse(started)).toMatchObject({ state: 'Starting', cpuOnly: true })
    const running = await untilStatus(ada, online.id, 'online')
    expect(running.sshCommand).toBe(online.sshCommand)
    expect((await ada.ssh(running.sshCommand, 'cat /root/note')).out).toBe('kept\n')
    expect((await ada.ssh(running.sshCommand, 'echo "[$BERTH_GPUS]"; echo more >> /root/note')).out).toBe('[]\n')
    const [limits] = JSON.parse(
      await host.docker.docker('inspect', (await ada.ssh(running.sshCommand, 'hostname')).out.trim()),
    ) as [Inspected]
    expect(limits.HostConfig).toMatchObject({ OomScoreAdj: 900, CpuShares: 64 })
    expect(limits.HostConfig.Memory).toBeLessThanOrEqual(4e9)
    expect(limits.HostConfig.NanoCpus).toBeLessThanOrEqual(2e9)

    // An agent that is killed on the way back to a GPU goes on with the same disk.
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/stop`)
    await untilStatus(ada, online.id, 'stopped')
    await terminate(ben, other.id)
    await untilGone(ben, other.id)
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/start`, {})
    await host.stopAgent('kill')
    await host.startAgent()
    const again = await untilStatus(ada, online.id, 'online')
    expect((await ada.ssh(again.sshCommand, 'echo "[$BERTH_GPUS]"; cat /root/note')).out).toBe('[0]\nkept\nmore\n')
    await terminate(ada, online.id)
    await untilGone(ada, online.id)
    expect(await host.ours()).toEqual([])

    const segments = await machines.server.app.database.db
      .selectFrom('segment')
      .selectAll()
      .where('rental_id', '=', await rentalIdOf(ada, online))
      .orderBy('started_at')
      .execute()
    expect(segments.map((one) => [one.while_stopped, one.without_gpus])).toEqual([
      [false, false],
      [true, false],
      [false, true],
      [true, false],
      [false, false],
    ])
    const disk = segments[1]?.price_nano_per_hour ?? 0n
    const cpus = Math.min(2, limits.HostConfig.NanoCpus / 1e9)
    const withoutGpus = disk + (usd('0.02') * BigInt(Math.round(cpus * 1_000))) / 1_000n
    expect(segments.map((one) => one.price_nano_per_hour)).toEqual([LAB_PRICE, disk, withoutGpus, disk, LAB_PRICE])
    const costs = segments.map(
      (one) => (one.price_nano_per_hour * BigInt((one.ended_at ?? 0) - one.started_at)) / 3_600_000n,
    )
    expect(segments.map((one) => one.settled_nano)).toEqual(costs)
    expect(segments.slice(1).map((one) => one.started_at)).toEqual(segments.slice(0, -1).map((one) => one.ended_at))
    expect(await charged(ada, online)).toBe(nanoUsdOf(costs.reduce((sum, one) => sum + one, 0n)))
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  }, 180_000)

  /** Two of them fit on the disk of the host. */
  async function rentSmall(by: Customer): Promise<Instance> {
    return untilStatus(by, await rentInstance(by, host, null, { diskGb: 5 }), 'online')
  }

  interface Inspected {
    readonly HostConfig: { readonly Memory: number; readonly NanoCpus: number; readonly OomScoreAdj: number }
  }

  async function berth(...args: string[]): Promise<string> {
    const env = { PATH: process.env['PATH'] ?? '', BERTH_URL: machines.server.url, BERTH_KEY: ada.key }
    return (await promisify(execFile)(process.execPath, [agentProgram(), ...args], { env })).stdout
  }
})
