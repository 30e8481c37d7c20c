/**
 * Host faults and their effect on running containers: each fault ends in the documented state, is billed correctly and
 * leaves nothing behind. Docker daemons, agents and the server process are real; all time limits are the defaults,
 * except the one for stalled pulls. Faults on different hosts run concurrently.
 */
import { readFileSync } from 'node:fs'
import { readdir, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../src/base/instant.ts'
import { whyNoDockerLab } from './lab/docker-lab.ts'
import {
  charged,
  costOf,
  dueForInstance,
  eventData,
  eventsOf,
  findInstance,
  rentalStatusOf,
  instancesPath,
  instantOf,
  isPortOpen,
  listingOf,
  rentInstance,
  rentOnline,
  sshPortOf,
  terminate,
  untilGone,
  untilStatus,
  type Instance,
} from './harness/instance.ts'
import { checkLedgerAndEngines, succeed } from './harness/journey.ts'
import { run, startMachinesOf, type ContainerHost, type Customer, type Machines } from './lab/machines.ts'
import { startServerLab, type ServerLab } from './lab/server-lab.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'build')

/** More than the waits of a test together: one that takes too long is then named by its wait. */
const FAULT_MS = 600_000
/**
 * How long before a fault the last observation may be: one heartbeat plus the time to store it on a busy machine. Must
 * be less than the silence after which a fault is noticed.
 */
const MAX_REPORT_AGE_MS = 10_000
const STALL_SECONDS = 2
const DISK_MB = 96
const UNKNOWN_CONTAINER = 'somebody-elses'

const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`

describe.skipIf(why !== undefined)(`host faults${skipped}`, () => {
  let machines: Machines<ServerLab>
  let lonely: ContainerHost
  let cut: ContainerHost
  let rebooted: ContainerHost
  let drilled: ContainerHost

  beforeAll(async () => {
    machines = await startMachinesOf({ hosts: 2 }, startServerLab)
    const [first, second] = machines.hosts
    if (first === undefined || second === undefined) throw new Error('there are no hosts')
    lonely = first
    cut = second
    const more = [{ diskMb: DISK_MB }, { args: ['--pull-stall', String(STALL_SECONDS)] }]
    const [third, fourth] = await Promise.all(more.map((options) => machines.addHost(options)))
    if (third === undefined || fourth === undefined) throw new Error('there are no more hosts')
    rebooted = third
    drilled = fourth
    await runUnknownContainer(lonely)
  }, 120_000)
  afterAll(() => machines.close())

  const relayHost = (): string => new URL(machines.server.url).hostname
  const containersOn = async (host: ContainerHost): Promise<string[]> =>
    (await host.docker.docker('ps', '-aq', '--no-trunc', '--filter', 'label=berth.tag'))
      .split('\n')
      .filter(Boolean)
      .sort()
  const hostKeyOf = async (instance: Instance): Promise<string> =>
    (await run('ssh-keyscan', ['-t', 'ed25519', '-p', String(sshPortOf(instance)), relayHost()])).out
  const hostAs = async ({ id }: ContainerHost) => {
    const { hosts } = await succeed(machines.server.operator, 'GET', '/v2/operator/hosts?limit=100')
    return hosts.find((one: { id: string }) => one.id === id)
  }
  const keep = async (by: Customer, instance: Instance): Promise<void> => {
    await by.ssh(instance.sshCommand, 'echo', 'kept', '>/root/mark')
  }
  const isKept = async (by: Customer, instance: Instance): Promise<boolean> =>
    (await by.ssh(instance.sshCommand, 'cat', '/root/mark')).out === 'kept\n'

  /** It ended while `Unknown`: it is charged up to the last observation, which was about when the fault happened. */
  async function expectPaidUntilLastSeen(by: Customer, instance: Instance, faultAt: number): Promise<void> {
    const seenAt = instantOf((await eventData(by, instance, 'rental.unknown'))['lastSeenAt'])
    expect(Math.abs(seenAt - faultAt)).toBeLessThan(MAX_REPORT_AGE_MS)
    expect(await charged(by, instance)).toBe(costOf(instantOf(instance.start), seenAt))
  }

  async function expectEnd(by: Customer, instance: Instance): Promise<void> {
    await terminate(by, instance.id)
    await untilGone(by, instance.id)
    expect(await charged(by, instance)).toBe(await dueForInstance(by, instance))
    await waitFor('its port to be closed', async () => !(await isPortOpen(relayHost(), sshPortOf(instance))))
  }

  /** Has the labels of this installation, but no row in the database. */
  async function runUnknownContainer(host: ContainerHost): Promise<void> {
    const { installation } = JSON.parse(readFileSync(path.join(host.dir, 'agent.json'), 'utf8'))
    const { name, tag } = machines.registry.images.busybox
    const labels = [`berth.id=w-${UNKNOWN_CONTAINER}`, `berth.tag=berth-${installation}-4711-deadbeef`]
    await host.docker.docker('pull', '-q', `${name}:${tag}`)
    const flags = ['-dit', '--name', UNKNOWN_CONTAINER, ...labels.flatMap((label) => ['--label', label])]
    await host.docker.docker('run', ...flags, `${name}:${tag}`)
  }

  describe.concurrent('faults of a single host', () => {
    test(
      'an agent is killed: its containers keep running and the next agent adopts them',
      { timeout: FAULT_MS },
      async () => {
        const ada = await machines.customer()
        const [stays, ends] = await Promise.all([rentOnline(ada, lonely), rentOnline(ada, lonely)])
        const containers = await containersOn(lonely)
        const hostKey = await hostKeyOf(stays)
        expect(hostKey).toContain('ssh-ed25519')
        await keep(ada, stays)
        await lonely.stopAgent('kill')
        const killedAt = systemClock.now()
        await Promise.all([stays, ends].map((one) => untilStatus(ada, one.id, 'unknown')))
        expect((await hostAs(lonely)).isSilent).toBe(true)
        await terminate(ada, ends.id)
        expect(await rentalStatusOf(ada, ends.id)).toBe('Terminating')
        expect(await containersOn(lonely)).toEqual(containers)

        await lonely.startAgent()
        const again = await untilStatus(ada, stays.id, 'online')
        await untilGone(ada, ends.id)
        await expectPaidUntilLastSeen(ada, ends, killedAt)
        expect([again.sshCommand, again.start]).toEqual([stays.sshCommand, stays.start])
        expect(await hostKeyOf(again)).toBe(hostKey)
        expect(await isKept(ada, again)).toBe(true)
        // That one, and the unknown container.
        const left = await containersOn(lonely)
        expect(left).toHaveLength(2)
        expect(containers).toEqual(expect.arrayContaining(left))
        const types = (await eventsOf(ada, stays)).map((event) => event.type)
        expect(types).toEqual(['rental.created', 'rental.running', 'rental.unknown', 'rental.recovered'])
        // It ran all the time and is charged for all of it.
        await expectEnd(ada, again)
      },
    )

    test(
      'the network is cut: Unknown, then Running again; an end requested meanwhile takes effect',
      { timeout: FAULT_MS },
      async () => {
        const ada = await machines.customer()
        const [stays, ends] = await Promise.all([rentOnline(ada, cut), rentOnline(ada, cut)])
        const containers = await containersOn(cut)
        await keep(ada, stays)
        await cut.docker.host.linkDown()
        const cutAt = systemClock.now()
        await Promise.all([stays, ends].map((one) => untilStatus(ada, one.id, 'unknown')))
        await terminate(ada, ends.id)
        expect(await rentalStatusOf(ada, ends.id)).toBe('Terminating')
        const refused = await ada.call('POST', `${instancesPath}/create`, {
          cluster_name: 'lab',
          node_name: cut.id,
          gpu_count: 1,
        })
        expect(refused.status).toBe(400)
        expect(await containersOn(cut)).toEqual(containers)

        await cut.docker.host.linkUp()
        const again = await untilStatus(ada, stays.id, 'online')
        await untilGone(ada, ends.id)
        expect(await containersOn(cut)).toHaveLength(1)
        await expectPaidUntilLastSeen(ada, ends, cutAt)
        expect(again.sshCommand).toBe(stays.sshCommand)
        expect(await isKept(ada, again)).toBe(true)
        await expectEnd(ada, again)
        await untilEmpty(cut)
      },
    )

    test(
      'a host reboots, a daemon restarts, a container is removed from outside, a disk fills up',
      { timeout: FAULT_MS },
      async () => {
        const ada = await machines.customer()
        const first = await rentOnline(ada, rebooted)
        const containers = await containersOn(rebooted)
        await keep(ada, first)

        await rebooted.stopAgent('kill')
        await rebooted.docker.cutPower()
        await rebooted.docker.startDaemon()
        expect((await rebooted.docker.docker('ps', '-q')).trim()).toBe('')
        await rebooted.startAgent()
        await untilRunsAgain(ada, first)
        expect(await containersOn(rebooted)).toEqual(containers)

        await rebooted.docker.restartDaemon()
        await untilRunsAgain(ada, first)
        expect(await containersOn(rebooted)).toEqual(containers)

        // The daemon stays down: its containers may have ended, so they are not reported as running.
        await rebooted.docker.stopDaemon()
        await untilStatus(ada, first.id, 'unknown')
        expect(await hostAs(rebooted)).toMatchObject({
          isSilent: true,
          notes: expect.arrayContaining([expect.stringContaining('Cannot read the state of the workloads')]),
        })
        await rebooted.docker.startDaemon()
        await untilRunsAgain(ada, first)
        expect(await containersOn(rebooted)).toEqual(containers)
        await untilOnSale(rebooted)
        await expectEnd(ada, first)

        const second = await rentOnline(ada, rebooted)
        const doomed = await containersOn(rebooted)
        // Taken before the removal, which may take seconds.
        const removedAt = systemClock.now()
        // Hidden from the agent: if it sees a container exit before it is removed, it reports the exit.
        process.kill(rebooted.agent().pid, 'SIGSTOP')
        await rebooted.docker.docker('rm', '-f', ...doomed)
        process.kill(rebooted.agent().pid, 'SIGCONT')
        await untilStatus(ada, second.id, 'failed')
        expect(await eventData(ada, second, 'rental.failed')).toMatchObject({ reason: 'vanished' })
        const paid = await charged(ada, second)
        expect(paid).toBeLessThanOrEqual(costOf(instantOf(second.start), systemClock.now()))
        expect(paid).toBeGreaterThanOrEqual(
          costOf(instantOf(second.start), (removedAt - MAX_REPORT_AGE_MS) as typeof removedAt),
        )
        await untilEmpty(rebooted)
        expect(await charged(ada, second)).toBe(paid)
        await terminate(ada, second.id)

        const filler = path.join(rebooted.docker.dataDir, 'filler')
        await run('dd', ['if=/dev/zero', `of=${filler}`, 'bs=1M', `count=${DISK_MB}`])
        const full = await rentInstance(ada, rebooted, machines.registry.images.sftp)
        const waiting = await waitFor('its wait reason', async () => {
          const shown = await findInstance(ada, full)
          return shown?.status_message?.includes("the host's disk is full") && shown
        })
        expect(waiting.instance.status).toBe('starting')
        await rm(filler)
        const third = await untilStatus(ada, full, 'online')
        await expectEnd(ada, third)
        await untilEmpty(rebooted)
      },
    )

    test(
      'a stalled pull is retried; a lost GPU alone goes off sale; a host drains and leaves',
      { timeout: FAULT_MS },
      async () => {
        const ada = await machines.customer()
        const registry = await startStallingRegistry()
        const name = await rentInstance(ada, drilled, { name: `${registry.address}/lab/sftp`, tag: '1' })
        await waitFor('the stalled pull to be reported', async () =>
          (await findInstance(ada, name))?.status_message?.includes(`made no progress for ${STALL_SECONDS} s`),
        )
        registry.goOn()
        const first = await untilStatus(ada, name, 'online')
        await registry.close()

        const index = Number((await ada.ssh(first.sshCommand, 'echo', '$BERTH_GPUS')).out)
        const sickFile = path.join(drilled.dir, 'sick.json')
        await writeFile(sickFile, JSON.stringify([index]))
        await waitFor('the GPU to be off sale', async () => (await hostAs(drilled)).gpusSick[0] === index)
        await waitFor('its machine too', async () => (await sickAt(drilled)).join() === String(index))
        expect((await findInstance(ada, name))?.instance.status).toBe('online')
        const second = await rentOnline(ada, drilled)
        const other = Number((await ada.ssh(second.sshCommand, 'echo', '$BERTH_GPUS')).out)
        expect(new Set([index, other])).toEqual(new Set([0, 1]))
        await expectEnd(ada, first)
        // Free, but not for sale.
        await expectRefused(ada, drilled, 'no_capacity')
        await rm(sickFile)
        await waitFor('the GPU to be back', async () => (await sickAt(drilled)).length === 0)
        const third = await rentOnline(ada, drilled)
        await expectEnd(ada, third)

        const drained = await drilled.tellAgent('drain')
        expect([drained.code, drained.error]).toEqual([0, ''])
        await expectRefused(ada, drilled, 'node_not_ready')
        const early = await drilled.tellAgent('leave')
        expect([early.code === 0, early.error]).toEqual([false, expect.stringContaining('tenants')])
        const ran = await ada.ssh(second.sshCommand, 'echo', 'I am still here')
        expect(ran.out).toBe('I am still here\n')
        await expectEnd(ada, second)
        await untilEmpty(drilled)
        const left = await drilled.tellAgent('leave')
        expect([left.code, left.error]).toEqual([0, ''])
        expect((await hostAs(drilled)).state).toBe('left')
        await waitFor(
          'it to be off the list',
          async () => (await listingOf(machines.server, drilled))?.status !== 'node_ready',
        )
      },
    )
  })

  /** Fails unless the container still has its old files. */
  async function untilRunsAgain(by: Customer, instance: Instance): Promise<void> {
    await waitFor(
      () => `it to run again, with its files:\n${rebooted.agent().output()}`,
      () => isKept(by, instance),
    )
    const again = await untilStatus(by, instance.id, 'online')
    expect([again.sshCommand, again.start]).toEqual([instance.sshCommand, instance.start])
  }

  async function untilOnSale(host: ContainerHost): Promise<void> {
    await waitFor('it to be on sale', async () => (await listingOf(machines.server, host))?.status === 'node_ready')
  }

  async function untilEmpty(host: ContainerHost): Promise<void> {
    await waitFor('its GPUs to be free', async () => (await listingOf(machines.server, host))?.gpus_reserved === 0)
    // The list of pulled images belongs to the host, not to a tenant.
    const files = (await readdir(path.join(host.dir, 'containers'))).filter((name) => name !== 'images.list')
    expect([await host.ours(), files]).toEqual([[], []])
  }

  async function sickAt({ id }: ContainerHost): Promise<number[]> {
    const { machines: listed } = await succeed(machines.server.operator, 'GET', '/v2/operator/machines?limit=100')
    return listed.find((one: { id: string }) => one.id === id).gpusSick
  }

  async function expectRefused(by: Customer, { id }: ContainerHost, reason: string): Promise<void> {
    const body = { cluster_name: 'lab', node_name: id, gpu_count: 1 }
    const refused = await by.call('POST', `${instancesPath}/create`, body)
    expect([refused.status, refused.body.reason]).toEqual([400, reason])
  }

  /** A proxy in front of the registry: it sends half of each large layer and then stalls until released. */
  async function startStallingRegistry(): Promise<{ address: string; goOn(): void; close(): Promise<void> }> {
    const { registry, network } = machines
    let stalls = true
    const answer = async (request: http.IncomingMessage, response: http.ServerResponse): Promise<void> => {
      const from = await fetch(`http://${registry.address}${request.url}`, {
        headers: { accept: request.headers.accept ?? '*/*' },
      })
      const body = Buffer.from(await from.arrayBuffer())
      const kept = ['content-type', 'docker-content-digest', 'docker-distribution-api-version']
      const headers = kept.flatMap((name) => (from.headers.has(name) ? [[name, from.headers.get(name) ?? '']] : []))
      response.writeHead(from.status, { ...Object.fromEntries(headers), 'content-length': body.length })
      if (stalls && body.length > 1_000_000) response.write(body.subarray(0, body.length / 2))
      else response.end(request.method === 'HEAD' ? undefined : body)
    }
    const server = http.createServer(
      (request, response) => void answer(request, response).catch(() => response.destroy()),
    )
    await new Promise<void>((resolve) => server.listen(0, network.bridgeAddress, resolve))
    const at = server.address()
    return {
      address: `${network.bridgeAddress}:${typeof at === 'object' && at !== null ? at.port : 0}`,
      goOn: () => (stalls = false),
      close: () =>
        new Promise((resolve) => {
          server.closeAllConnections()
          server.close(() => resolve())
        }),
    }
  }

  test(
    'the server is killed: tenants keep running, agents reconnect, nothing is lost or created twice',
    { timeout: FAULT_MS },
    async () => {
      const ada = await machines.customer()
      const [one, two] = await Promise.all([rentOnline(ada, cut), rentOnline(ada, rebooted)])
      await keep(ada, one)
      const startedAt = async (host: ContainerHost) =>
        host.docker.docker('inspect', '-f', '{{.State.StartedAt}} {{.State.Running}}', ...(await containersOn(host)))
      const before = [await startedAt(cut), await startedAt(rebooted)]
      const late = await rentInstance(ada, cut)
      await machines.server.kill()
      await waitFor('an agent to report that its server is down', () =>
        cut.agent().output().includes('Lost the connection to'),
      )
      expect(await isPortOpen(relayHost(), sshPortOf(one))).toBe(false)
      await machines.server.start()
      const [oneAgain, twoAgain] = await Promise.all([one, two].map((each) => untilStatus(ada, each.id, 'online')))
      expect(oneAgain?.sshCommand).toBe(one.sshCommand)
      await waitFor('SSH to work again', () => isKept(ada, one))
      const lateOnline = await untilStatus(ada, late, 'online')
      expect(await containersOn(cut)).toHaveLength(2)
      expect((await startedAt(cut)).split('\n')).toContain(before[0]?.trim())
      expect(await startedAt(rebooted)).toBe(before[1])
      await Promise.all([oneAgain, twoAgain, lateOnline].map((each) => expectEnd(ada, each as Instance)))
      await untilEmpty(cut)
      await untilEmpty(rebooted)
    },
  )

  test('containers without a database row were reported and left alone throughout', async () => {
    const audit = await succeed(machines.server.operator, 'GET', '/v2/operator/engines/audit')
    expect(audit.ok).toBe(false)
    expect(audit.engines).toMatchObject([{ driver: 'host', findings: [{ check: 'unknown_rental' }] }])
    expect((await lonely.docker.docker('inspect', '-f', '{{.State.Running}}', UNKNOWN_CONTAINER)).trim()).toBe('true')
    await lonely.docker.docker('rm', '-f', UNKNOWN_CONTAINER)
    await waitFor(
      'the database and the engines to agree',
      async () => (await checkLedgerAndEngines(machines.server)).length === 0,
    )
    await untilEmpty(lonely)
  })
})
