/**
 * Bare metal from the customer's and the operator's side, on hosts that are real except for their kernel: SSH access,
 * verified cleaning between tenants, and host failures. All tests share the two hosts and leave them ready.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { nanoUsdOf, usd } from '../../src/base/money.ts'
import { chargedFor, checkLedgerAndEngines, costBetween, dueFor, eventTypesOf, succeed } from '../harness/journey.ts'
import type { Customer } from '../lab/machines.ts'
import { whyNoMetalLab, type MetalLabHost } from '../lab/metal-lab.ts'
import {
  inventoryEntry,
  METAL_REGION,
  SCRATCH,
  startMetalMachines,
  untilState,
  type MetalMachines,
} from '../lab/metal-machines.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('docker', 'metal', 'build')

const path = '/v2/alpha/on-demand/bare-metal-rentals'
const rentals = '/v2/rentals'
const reason = whyNoMetalLab()
/** One host: eight GPUs at $2. */
const HOURLY = usd('16')
const UNKNOWN_MS = 40_000
/** The silence after which a host counts as offline, and the polling interval. */
const [SILENT_MS, POLL_MS] = [12_000, 5_000]

interface Rental {
  readonly id: number
  readonly status: string
  readonly statusReason: string | null
  readonly statusMessage: string | null
  readonly actions: readonly string[]
  readonly startedAt: string
  readonly costSoFarUsd: string
  readonly providerData: {
    readonly sshNetworking: ReadonlyArray<{ host: string; port: number; user: string }>
    readonly nodes: ReadonlyArray<{ role: string; hostname: string; publicIp: string; privateIp: string }>
    readonly nodeNetworking?: unknown
  }
}

describe.skipIf(reason !== null)(`bare metal${reason === null ? '' : ` (skipped: ${reason})`}`, () => {
  let machines: MetalMachines
  let ada: Customer

  beforeAll(async () => {
    machines = await startMetalMachines({ hosts: 2 })
    ada = await machines.customer()
  }, 120_000)
  afterAll(() => machines?.close())

  const hostOf = (index: number): MetalLabHost => {
    const host = machines.lab.hosts[index]
    if (host === undefined) throw new Error('no such host')
    return host
  }
  const order = { gpuCount: 8, region: METAL_REGION, gpuType: 'h100', networkType: 'ethernet' }
  const rent = async (by: Customer, more: object = {}): Promise<number> =>
    (await succeed(by.call, 'POST', path, { ...order, ...more })).id
  const detail = (by: Customer, id: number): Promise<Rental> =>
    succeed(by.call, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
  const until = (by: Customer, id: number, status: string, timeoutMs?: number): Promise<Rental> => {
    let last: Rental | undefined
    return waitFor(
      () => `rental ${id} is ${status}: ${JSON.stringify(last)}`,
      async () => {
        last = await detail(by, id)
        return last.status === status && last
      },
      timeoutMs,
    )
  }
  const run = async (by: Customer, more: object = {}): Promise<Rental> => until(by, await rent(by, more), 'Running')
  const terminate = (by: Customer, { id }: Rental) => succeed(by.call, 'POST', `${path}/terminate`, { rentalId: id })
  const end = async (by: Customer, rental: Rental): Promise<Rental> => {
    await terminate(by, rental)
    return until(by, rental.id, 'Terminated')
  }
  /** The system's SSH client, connected to the rental's address. */
  const ssh = async (by: Customer, rental: Rental, command: string, node = 0): Promise<string> => {
    const at = rental.providerData.sshNetworking[node]
    const ran = await by.ssh(`ssh ${at?.user}@${at?.host} -p ${at?.port}`, command)
    if (ran.code !== 0) throw new Error(`${command}: ${ran.code} ${ran.error}`)
    return ran.out
  }
  const act = (host: MetalLabHost, action: string) =>
    succeed(machines.server.operator, 'PATCH', `/v2/operator/hosts/${host.id}`, { action, reason: 'for the test' })
  const hostRecord = async ({ id }: MetalLabHost): Promise<{ state: string; stateReason: string; tenants: number }> => {
    const { hosts } = await succeed(machines.server.operator, 'GET', '/v2/operator/hosts?limit=100')
    return hosts.find((one: { id: string }) => one.id === id)
  }
  const placement = (gpuCount = 8) =>
    succeed(machines.server.operator, 'POST', '/v2/operator/placement', {
      ...order,
      gpuCount,
      machineType: 'bare-metal',
    })
  /** The other host is off sale meanwhile. */
  const onlyOn = async (host: MetalLabHost, work: () => Promise<void>): Promise<void> => {
    const others = machines.lab.hosts.filter(({ id }) => id !== host.id)
    for (const other of others) await act(other, 'drain')
    try {
      await work()
    } finally {
      for (const other of others) await act(other, 'resume')
    }
  }

  test('checks a host before it is sold, and rejects hardware that differs from its declaration', async () => {
    const { operator } = machines.server
    const listed = await succeed(operator, 'GET', '/v2/operator/hosts?limit=100')
    expect(listed.hosts).toMatchObject(
      machines.lab.hosts.map(({ id }) => ({
        id,
        state: 'ready',
        driver: 'private-cloud',
        simulated: true,
        tenants: 0,
      })),
    )
    const entry = inventoryEntry(hostOf(0))
    const hardware = { ...(entry['hardware'] as object), virtualCores: 300, cpuCores: 150 }
    await succeed(operator, 'POST', '/v2/operator/hosts', { ...entry, id: 'boastful', hardware })
    await untilState(machines.server, 'boastful', 'quarantined')
    const { hosts } = await succeed(operator, 'GET', '/v2/operator/hosts?state=quarantined&limit=100')
    expect(hosts[0].stateReason).toMatch(/processors, but 300 are declared/)
    expect((await placement()).candidates.map((one: { machineId: string }) => one.machineId)).toEqual(
      machines.lab.hosts.map(({ id }) => id),
    )
    await succeed(operator, 'PATCH', '/v2/operator/hosts/boastful', { action: 'remove', reason: 'it boasts' })
  })

  test('a tenant logs in, works and leaves; the next one on the same host finds no trace', async () => {
    const host = hostOf(0)
    await onlyOn(host, async () => {
      const rental = await run(ada)
      expect(rental.providerData).toMatchObject({
        providerId: 'private-cloud',
        sshNetworking: [{ host: host.address, port: 22, user: 'tenant' }],
        nodes: [{ role: 'head', hostname: host.id, publicIp: host.address, privateIp: host.address }],
        resources: { gpuCount: 8 },
        networkType: 'ethernet',
      })
      expect(rental.providerData.nodeNetworking).toBeUndefined()
      await host.exec(['chmod', '1777', SCRATCH])
      const loop = 'nohup setsid sh -c "while :; do sleep 1; done" > /dev/null 2>&1 < /dev/null &'
      const work = `for at in . ${SCRATCH} /tmp /dev/shm; do echo mine > $at/left; done; ${loop} id -un; hostname; cat hosts; nproc`
      const processors = (await host.exec(['nproc'])).trim()
      expect(await ssh(ada, rental, work)).toBe(`tenant\n${host.id}\n${host.id} ${host.address} head\n${processors}\n`)
      const uid = (await ssh(ada, rental, 'id -u')).trim()
      const boots = host.boots()

      const ended = await end(ada, rental)
      expect(host.boots()).toBe(boots + 1)
      expect(await host.exec(['sh', '-c', `find / -xdev -user ${uid}; find ${SCRATCH} /home /tmp -mindepth 1`])).toBe(
        '',
      )
      await expect(ssh(ada, rental, 'true')).rejects.toThrow('Permission denied')
      expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(await dueFor(ada.call, ended, HOURLY))

      const bob = await machines.customer()
      const next = await run(bob)
      expect(next.providerData.nodes[0]?.hostname).toBe(host.id)
      await expect(ssh(ada, next, 'true')).rejects.toThrow('Permission denied')
      const looking = `ls -A; find / -xdev -user $(id -u) 2> /dev/null | grep -v '^/home/tenant'; ls ${SCRATCH} /dev/shm`
      expect(await ssh(bob, next, looking)).toBe(`.ssh\nhosts\n/dev/shm:\n\n${SCRATCH}:\n`)
      expect(await ssh(bob, next, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'while [:]' || true")).toBe('0\n')
      await end(bob, next)
    })
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  })

  test('sixteen GPUs are two hosts that can reach each other, and end together', async () => {
    const rental = await run(ada, { gpuCount: 16 })
    const [head, compute] = rental.providerData.nodes
    expect([head?.role, compute?.role]).toEqual(['head', 'compute'])
    expect(new Set([head?.hostname, compute?.hostname])).toEqual(new Set(machines.lab.hosts.map(({ id }) => id)))
    expect(rental.providerData.nodeNetworking).toEqual(
      [head, compute].map((node) => ({ publicIp: node?.publicIp, privateIp: node?.privateIp })),
    )
    const list = `${head?.hostname} ${head?.privateIp} head\n${compute?.hostname} ${compute?.privateIp} compute\n`
    expect(await ssh(ada, rental, 'cat ~/hosts')).toBe(list)
    expect(await ssh(ada, rental, 'cat ~/hosts', 1)).toBe(list)
    expect(await ssh(ada, rental, `ssh ${compute?.hostname} 'hostname; id -un'`)).toBe(`${compute?.hostname}\ntenant\n`)
    const boots = machines.lab.hosts.map((host) => host.boots())
    const ended = await end(ada, rental)
    expect(machines.lab.hosts.map((host) => host.boots())).toEqual(boots.map((count) => count + 1))
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(
      await dueFor(ada.call, ended, nanoUsdOf(2n * HOURLY)),
    )
  })

  test('a host that cannot be cleaned ends the rental and stays off sale until the operator releases it', async () => {
    const host = hostOf(1)
    await onlyOn(host, async () => {
      const rental = await run(ada)
      await host.makeReadOnly()
      const ended = await end(ada, rental)
      expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(await dueFor(ada.call, ended, HOURLY))
      expect(await hostRecord(host)).toMatchObject({
        state: 'quarantined',
        stateReason: expect.stringMatching(/^remove: /),
        tenants: 0,
      })
      // The files it could not remove grant no access.
      await expect(ssh(ada, rental, 'true')).rejects.toThrow('Permission denied')
      const { found, candidates, rejected } = await placement()
      expect([found, candidates]).toEqual([false, []])
      expect(rejected.find((one: { machineId: string }) => one.machineId === host.id)?.reason).toBe('quarantined')
      const refused = await ada.call('POST', path, order)
      expect([refused.status, refused.body.reason]).toEqual([400, 'no_capacity'])
      // Released too early, it is checked and quarantined again.
      await act(host, 'release')
      await untilState(machines.server, host.id, 'quarantined')

      const boots = host.boots()
      await host.makeWritable()
      await act(host, 'release')
      await untilState(machines.server, host.id, 'ready')
      expect(host.boots()).toBe(boots + 1)
      expect(await host.exec(['sh', '-c', 'ls -A /home /var/lib/berth'])).toBe('/home:\n\n/var/lib/berth:\n')
      await end(ada, await run(ada))
    })
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  })

  test('missing hardware fails the order with a reason and keeps the host off sale', async () => {
    const host = hostOf(0)
    await onlyOn(host, async () => {
      await host.loseProcessors()
      const rental = await until(ada, await rent(ada), 'Failed')
      expect(rental.statusReason).toBe('hardware_differs')
      expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(0n)
      await untilState(machines.server, host.id, 'quarantined')
      expect((await hostRecord(host)).stateReason).toMatch(/^check: The host has 1 processors, but \d+ are declared/)
      await waitFor('nothing is held', async () => (await placement()).rejectedCount === 2)
      await end(ada, rental)
      await host.findProcessors()
      await act(host, 'release')
      await untilState(machines.server, host.id, 'ready')
    })
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  })

  test('a host that is off when its rental ends is not offered until it has been cleaned', async () => {
    const host = hostOf(1)
    await onlyOn(host, async () => {
      const rental = await run(ada)
      await host.powerOff()
      await terminate(ada, rental)
      await untilState(machines.server, host.id, 'cleaning_pending')
      const listed = async (state: string): Promise<string[]> => {
        const { hosts } = await succeed(machines.server.operator, 'GET', `/v2/operator/hosts?state=${state}&limit=100`)
        return hosts.map((one: { id: string }) => one.id)
      }
      expect(await listed('cleaning_pending')).toEqual([host.id])
      expect(await listed('ready')).not.toContain(host.id)
      const refused = await ada.call('POST', path, order)
      expect([refused.status, refused.body.reason]).toEqual([400, 'no_capacity'])
      await host.powerOn()
      const ended = await until(ada, rental.id, 'Terminated')
      await untilState(machines.server, host.id, 'ready')
      expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(await dueFor(ada.call, ended, HOURLY))
    })
  })

  test('a rental that ends while its host is unreachable costs nothing after its last report', async () => {
    const host = hostOf(1)
    await onlyOn(host, async () => {
      const rental = await run(ada)
      host.linkDown()
      const unknown = await until(ada, rental.id, 'Unknown', UNKNOWN_MS)
      await terminate(ada, rental)
      host.linkUp()
      const ended = await until(ada, rental.id, 'Terminated')
      await untilState(machines.server, host.id, 'ready')
      const charged = await chargedFor(ada.call, { rentalId: rental.id })
      expect(charged).toBe(usd(unknown.costSoFarUsd))
      expect(charged).toBe(await dueFor(ada.call, ended, HOURLY))
    })
  })

  test('a host that is switched off makes its rental Unknown and stops its charges until it is back', async () => {
    const host = hostOf(1)
    await onlyOn(host, async () => {
      const rental = await run(ada)
      await ssh(ada, rental, 'echo kept > file')
      await host.powerOff()
      const unknown = await until(ada, rental.id, 'Unknown', UNKNOWN_MS)
      const eventOf = async (
        type: string,
      ): Promise<{ at: string; data: { lastSeenAt: string; restarted: boolean } }> => {
        const { events } = await succeed(ada.call, 'GET', `/v2/events?limit=1000&subject=rental:${rental.id}`)
        return events.find((one: { type: string }) => one.type === type)
      }
      const lost = await eventOf('rental.unknown')
      // Up to the last observation, and no further.
      expect(usd(unknown.costSoFarUsd)).toBe(costBetween(rental.startedAt, lost.data.lastSeenAt, HOURLY))
      expect(Date.parse(lost.at) - Date.parse(lost.data.lastSeenAt)).toBeGreaterThan(SILENT_MS - POLL_MS)
      await host.powerOn()
      const again = await until(ada, rental.id, 'Running')
      expect(await ssh(ada, again, 'cat file')).toBe('kept\n')
      const ended = await end(ada, again)
      expect((await eventOf('rental.recovered')).data.restarted).toBe(true)
      expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(await dueFor(ada.call, ended, HOURLY))
      expect(await eventTypesOf(ada.call, `rental:${rental.id}`)).toEqual([
        'rental.created',
        'rental.running',
        'rental.unknown',
        'rental.recovered',
        'rental.terminating',
        'rental.terminated',
      ])
    })
  })

  test('a reboot keeps tenant, files and bill; a host that does not come back is Unknown for that reason', async () => {
    const host = hostOf(0)
    await onlyOn(host, async () => {
      const rental = await run(ada)
      expect(rental.actions).toEqual(['reboot', 'terminate'])
      await ssh(ada, rental, 'echo kept > file')
      const boots = host.boots()
      const reboot = () => succeed(ada.call, 'POST', `${rentals}/${rental.id}/reboot`)
      expect(await reboot()).toMatchObject({ state: 'Running', actions: ['reboot', 'terminate'] })
      await waitFor('the host is rebooted', () => host.boots() === boots + 1)
      await waitFor('the tenant gets in', () => ssh(ada, rental, 'cat file').catch(() => undefined))
      await waitFor('the reboot is over', async () => (await detail(ada, rental.id)).statusMessage === null)
      await waitFor('rates of use', async () => {
        const { machines: measured } = await succeed(ada.call, 'GET', `${rentals}/${rental.id}/metrics`)
        return typeof measured[0]?.cpuPercent === 'number'
      })
      await host.exec(['sh', '-c', 'mkdir -p /usr/local/sbin && cp /usr/sbin/poweroff /usr/local/sbin/reboot'])
      await reboot()
      await waitFor('it reboots', async () => (await detail(ada, rental.id)).statusMessage === 'rebooting')
      await waitFor('the host is off', () =>
        host.exec(['true']).then(
          () => false,
          () => true,
        ),
      )
      // The next server does not wait: it only knows what was reported last.
      await machines.restart(() => {})
      const unknown = await until(ada, rental.id, 'Unknown', UNKNOWN_MS)
      expect([unknown.statusReason, unknown.actions]).toEqual(['reboot_unfinished', ['terminate']])
      await host.powerOn()
      await host.exec(['rm', '/usr/local/sbin/reboot'])
      const again = await until(ada, rental.id, 'Running')
      expect([again.statusReason, await ssh(ada, again, 'cat file')]).toEqual([null, 'kept\n'])
      await end(ada, again)
      const types = await eventTypesOf(ada.call, `rental:${rental.id}`)
      expect(types.filter((type) => !/created|terminat/.test(type))).toEqual([
        'rental.running',
        'rental.rebooted',
        'rental.rebooted',
        'rental.unknown',
        'rental.recovered',
      ])
    })
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  })

  test('a server that stops in the middle of a cleaning: the next one continues it', async () => {
    const [cleaned, kept] = [hostOf(0), hostOf(1)]
    const rentals = [await run(ada), await run(ada)]
    const on = (host: MetalLabHost): Rental => {
      const found = rentals.find(({ providerData }) => providerData.nodes[0]?.hostname === host.id)
      if (found === undefined) throw new Error(`nothing runs on ${host.id}`)
      return found
    }
    await cleaned.exec(['chmod', '1777', SCRATCH])
    await ssh(ada, on(cleaned), `echo mine > ${SCRATCH}/left`)
    const boots = cleaned.boots()
    await terminate(ada, on(cleaned))
    const isLocked = 'test ! -e /home/tenant/.ssh/authorized_keys'
    await waitFor('the cleaning has begun', () =>
      cleaned.exec(['sh', '-c', isLocked]).then(
        () => true,
        () => false,
      ),
    )
    cleaned.linkDown()
    expect((await detail(ada, on(cleaned).id)).status).toBe('Terminating')
    await machines.restart(() => cleaned.linkUp())
    const ended = await until(ada, on(cleaned).id, 'Terminated')
    expect(cleaned.boots()).toBeGreaterThan(boots)
    expect(await cleaned.exec(['sh', '-c', `find ${SCRATCH} /home /var/lib/berth -mindepth 1`])).toBe('')
    expect(await chargedFor(ada.call, { rentalId: ended.id })).toBe(await dueFor(ada.call, ended, HOURLY))
    // The other tenant was not affected.
    expect((await until(ada, on(kept).id, 'Running')).startedAt).toBe(on(kept).startedAt)
    expect(await ssh(ada, on(kept), 'id -un')).toBe('tenant\n')
    const other = await end(ada, on(kept))
    expect(await chargedFor(ada.call, { rentalId: other.id })).toBe(await dueFor(ada.call, other, HOURLY))
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  })
})
