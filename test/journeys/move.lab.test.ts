/**
 * A customer whose GPU was rented to somebody else starts a stopped container on another host, with its disk. Two real
 * engines and agents, the command line and the SSH client; copies are cut off at every step, and either end on the new
 * host or lead back to the old one.
 */
import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { nanoUsdOf } from '../../src/base/money.ts'
import { agentProgram } from '../lab/agent-process.ts'
import { whyNoDockerLab } from '../lab/docker-lab.ts'
import {
  charged,
  eventData,
  eventsOf,
  findInstance,
  LAB_PRICE,
  listingOf,
  rentalIdOf,
  rentInstance,
  terminate,
  untilGone,
  untilStatus,
  type Instance,
} from '../harness/instance.ts'
import { checkLedgerAndEngines, succeed } from '../harness/journey.ts'
import type { LabImage } from '../lab/registry-lab.ts'
import { startMachines, type ContainerHost, type Customer, type Machines } from '../lab/machines.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('docker', 'build')

const rentals = '/v2/rentals'
const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`

describe.skipIf(why !== undefined)(`containers that move${skipped}`, () => {
  let machines: Machines
  let old: ContainerHost
  let other: ContainerHost
  let ada: Customer
  let ben: Customer
  let image: LabImage

  beforeAll(async () => {
    machines = await startMachines({ hosts: 2, gpus: 'rtx4090:1' })
    const [first, second] = machines.hosts
    if (first === undefined || second === undefined) throw new Error('there are no hosts')
    ;[old, other] = [first, second]
    const { registry } = machines
    image = await registry.push('lab/keeps', '1', [registry.busyboxLayer], ['/bin/sh', '-c', 'exec sleep 100000'], {
      Volumes: { '/data': {} },
    })
    ada = await machines.customer()
    ben = await machines.customer()
  }, 120_000)
  afterAll(() => machines.close())

  test('id, address, host key, disk and volumes survive a move, which is charged to the nano-dollar; the old disk goes when the new one runs (promise 7; issue 31, 16)', async () => {
    const { online, taken, hostKey } = await stopWithoutGpu('kept\n')
    const started = await berth('start', online.id, '--if-no-gpu', 'move', '--json')
    expect(JSON.parse(started)).toMatchObject({ state: 'Starting', cpuOnly: false })
    const moved = await untilStatus(ada, online.id, 'online', 60_000)
    expect(await hostOf(online)).toBe(other.id)
    expect([moved.id, moved.sshCommand]).toEqual([online.id, online.sshCommand])
    expect(await readNotes(moved)).toBe('kept\nkept\n')
    expect(await hostKeyOf(moved)).toBe(hostKey)
    expect((await ada.ssh(moved.sshCommand, 'echo "[$BERTH_GPUS]"')).out).toBe('[0]\n')
    expect(await eventData(ada, online, 'rental.starting')).toMatchObject({ from: old.id, to: other.id })
    await waitFor('the old disk to be removed', async () => (await old.ours()).length === 2, 60_000)

    // It is an ordinary machine there: it stops and starts with its disk.
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/stop`)
    await untilStatus(ada, online.id, 'stopped')
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/start`, {})
    expect(await readNotes(await untilStatus(ada, online.id, 'online'))).toBe('kept\nkept\n')
    await end(online, taken)

    const segments = await machines.server.app.database.db
      .selectFrom('segment')
      .selectAll()
      .where('rental_id', '=', await rentalIdOf(ada, online))
      .orderBy('started_at')
      .execute()
    const disk = segments[1]?.price_nano_per_hour ?? 0n
    expect(segments.map((one) => [one.while_stopped, one.price_nano_per_hour])).toEqual([
      [false, LAB_PRICE],
      [true, disk],
      [false, LAB_PRICE],
      [true, disk],
      [false, LAB_PRICE],
    ])
    const costs = segments.map(
      (one) => (one.price_nano_per_hour * BigInt((one.ended_at ?? 0) - one.started_at)) / 3_600_000n,
    )
    expect(segments.slice(1).map((one) => one.started_at)).toEqual(segments.slice(0, -1).map((one) => one.ended_at))
    expect(await charged(ada, online)).toBe(nanoUsdOf(costs.reduce((sum, one) => sum + one, 0n)))
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  }, 240_000)

  test.each([
    ['the agent that receives', () => other],
    ['the agent that sends', () => old],
  ])(
    '%s is killed during the copy: the move goes on with the whole disk (issue 31, 16)',
    async (_, host) => {
      const { online, taken } = await stopWithoutGpu('whole\n', 300)
      await succeed(ada.call, 'POST', `${rentals}/${online.id}/start`, { ifNoGpu: 'move' })
      await untilCopying(online)
      await host().stopAgent('kill')
      await host().startAgent()
      const moved = await untilStatus(ada, online.id, 'online', 120_000)
      expect(await hostOf(online)).toBe(other.id)
      expect(await readNotes(moved)).toBe('whole\nwhole\n')
      expect((await ada.ssh(moved.sshCommand, 'sha256sum < /root/large; cat /root/digest')).out).toMatch(
        /^([0-9a-f]{64}) {2}-\n\1 {2}-\n$/,
      )
      await end(online, taken)
      expect(await checkLedgerAndEngines(machines.server)).toEqual([])
    },
    240_000,
  )

  test('a stop during the copy leads back to the old host, with its disk, and the new one has nothing of it (issue 31, 16)', async () => {
    const { online, taken } = await stopWithoutGpu('stays\n', 300)
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/start`, { ifNoGpu: 'move' })
    await untilCopying(online)
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/stop`)
    await untilStatus(ada, online.id, 'stopped', 60_000)
    expect(await hostOf(online)).toBe(old.id)
    await waitFor('the new host to have nothing of it', async () => (await leftOn(other)).length === 0, 60_000)
    expect(await listingOf(machines.server, other)).toMatchObject({ gpus_reserved: 0 })
    await terminate(ben, taken.id)
    await untilGone(ben, taken.id)
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/start`, {})
    expect(await readNotes(await untilStatus(ada, online.id, 'online'))).toBe('stays\nstays\n')
    await terminate(ada, online.id)
    await untilGone(ada, online.id)
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  }, 240_000)

  test('a disk that cannot be copied stays on the old host, the rental is stopped with the reason, and its GPU is free (issue 31, 16)', async () => {
    const { online, taken } = await stopWithoutGpu('stays\n')
    // Its files on the old host cannot be read, so nothing can be sent.
    const file = await fileOf(online)
    const text = await readFile(file)
    await writeFile(file, '{')
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/start`, { ifNoGpu: 'move' })
    const failed = await waitFor(
      'the start to fail',
      async () => (await eventsOf(ada, online)).find(({ type }) => type === 'rental.start_failed'),
      120_000,
    )
    expect(failed.data).toMatchObject({ reason: 'disk_not_copied', diskKept: true })
    await untilStatus(ada, online.id, 'stopped', 60_000)
    await writeFile(file, text)
    expect(await hostOf(online)).toBe(old.id)
    await waitFor('the new host to have nothing of it', async () => (await leftOn(other)).length === 0, 60_000)
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/start`, { ifNoGpu: 'move' })
    expect(await readNotes(await untilStatus(ada, online.id, 'online', 60_000))).toBe('stays\nstays\n')
    await end(online, taken)
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  }, 240_000)

  test('a rental that is terminated during the copy leaves nothing on either host (issue 31, 16)', async () => {
    const { online, taken } = await stopWithoutGpu('gone\n', 300)
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/start`, { ifNoGpu: 'move' })
    await untilCopying(online)
    await end(online, taken)
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  }, 240_000)

  async function fileOf(online: Instance): Promise<string> {
    const { external_id: id } = await machines.server.app.database.db
      .selectFrom('rental')
      .select('external_id')
      .where('id', '=', await rentalIdOf(ada, online))
      .executeTakeFirstOrThrow()
    const files = await readdir(old.dir, { recursive: true })
    return path.join(old.dir, files.find((name) => path.basename(name) === `${id}.json`) ?? '')
  }

  /** A stopped container with text on its disk and on a volume of its image, whose GPU somebody else has. */
  async function stopWithoutGpu(
    text: string,
    largeMb = 0,
  ): Promise<{ online: Instance; taken: Instance; hostKey: string }> {
    const online = await rentSmall(ada)
    const hostKey = await hostKeyOf(online)
    const write = `printf '${text}' > /root/note; printf '${text}' > /data/note`
    const fill = `dd if=/dev/urandom of=/root/large bs=1M count=${largeMb} 2>/dev/null; sha256sum < /root/large > /root/digest`
    expect((await ada.ssh(online.sshCommand, largeMb === 0 ? write : `${write}; ${fill}`)).code).toBe(0)
    await succeed(ada.call, 'POST', `${rentals}/${online.id}/stop`)
    await untilStatus(ada, online.id, 'stopped')
    return { online, taken: await rentSmall(ben), hostKey }
  }

  async function hostKeyOf({ sshCommand }: Instance): Promise<string> {
    const [, host = '', port = ''] = /@(\S+) -p (\d+)$/.exec(sshCommand) ?? []
    const key = (await promisify(execFile)('ssh-keyscan', ['-p', port, host])).stdout
    expect(key).toContain('ssh-ed25519')
    return key
  }

  /** Two of them fit on the disk of a host. */
  async function rentSmall(by: Customer): Promise<Instance> {
    return untilStatus(by, await rentInstance(by, old, image, { diskGb: 5 }), 'online')
  }

  async function readNotes({ sshCommand }: Instance): Promise<string> {
    return (await ada.ssh(sshCommand, 'cat /root/note /data/note')).out
  }

  async function hostOf({ id }: Instance): Promise<string> {
    return (await succeed(ada.call, 'GET', `/v2/rentals/${id}`)).machines[0].id
  }

  function untilCopying({ id }: Instance): Promise<unknown> {
    return waitFor('the copy to begin', async () =>
      /copying the disk, \d+ of/.test((await findInstance(ada, id))?.status_message ?? ''),
    )
  }

  async function end(online: Instance, taken: Instance): Promise<void> {
    await terminate(ada, online.id)
    await terminate(ben, taken.id)
    await untilGone(ada, online.id)
    await untilGone(ben, taken.id)
    for (const host of [old, other])
      await waitFor(`nothing to be left on ${host.id}`, async () => (await leftOn(host)).length === 0, 60_000)
  }

  /** Containers, networks, volumes, and images of disks. */
  async function leftOn(host: ContainerHost): Promise<string[]> {
    const { docker } = host
    const images = await docker.docker('images', '--format', '{{.Repository}}:{{.Tag}}')
    const disks = images.split('\n').filter((name) => /^berth-(disk|copy):/.test(name))
    const volumes = (await docker.docker('volume', 'ls', '-q')).split('\n').filter((name) => name !== '')
    return [...(await host.ours()), ...disks, ...volumes]
  }

  async function berth(...args: string[]): Promise<string> {
    const env = { PATH: process.env['PATH'] ?? '', BERTH_URL: machines.server.url, BERTH_KEY: ada.key }
    return (await promisify(execFile)(process.execPath, [agentProgram(), ...args], { env })).stdout
  }
})
