/** The server's work for bare-metal hosts, with an in-memory database and hosts that are real except for their kernel. */
import fs from 'node:fs'
import os from 'node:os'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSshKeyPair } from '../../base/ssh-key-pair.ts'
import { REBOOTING, type Desired, type HostReport, type Workload } from '../../contract/agent.ts'
import { startMetalLab, whyNoMetalLab, type MetalLab, type MetalLabHost } from '../../../test/lab/metal-lab.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { metalAccess } from '../../runtimes/ssh/access.ts'
import { keepMetal, type MetalKeeping } from './keep.ts'
import type { MetalHost, MetalWorld } from './world.ts'
import { needs } from '../../../test/needs.ts'

needs('metal')

const reason = whyNoMetalLab()

describe.skipIf(reason !== null)(`keeping bare-metal hosts${reason === null ? '' : ` (left out: ${reason})`}`, () => {
  let lab: MetalLab
  const keepings: MetalKeeping[] = []

  beforeAll(async () => {
    lab = await startMetalLab({ hosts: 2 })
  })
  afterAll(async () => {
    await Promise.all(keepings.map((keeping) => keeping.close()))
    await lab?.close()
  })

  function keepingOf(ledger: TestLedger, log: string[] = [], rebootMs = 60_000): MetalKeeping {
    const warn = (facts: object, message: string): void => void log.push(`${message}: ${JSON.stringify(facts)}`)
    const keeping = keepMetal({
      world: ledger,
      clusterSecret: 'a secret of tests',
      log: { warn },
      limits: { rebootMs, switchAfterMs: 5_000 },
      guardEveryMs: 200,
    })
    keepings.push(keeping)
    return keeping
  }

  /** Runs passes until the condition holds, as the loop does. */
  async function until<T>(keeping: MetalKeeping, what: string, ask: () => T | undefined | false): Promise<T> {
    const log = (): string => what
    return waitFor(log, async () => {
      await keeping.run(new AbortController().signal)
      return ask()
    })
  }

  test('checks a new host, rents it out, cleans it, and rents it out again', async () => {
    const host = at(lab, 0)
    const ledger = new TestLedger([host])
    const keeping = keepingOf(ledger)
    await until(keeping, 'the host is ready', () => ledger.stateOf(host.id) === 'ready')
    expect(ledger.learnt.get(host.id)).toBe(host.hostKeyFingerprint)
    ledger.want(host.id, [workloadOf('m-1', host)])
    const running = await until(keeping, 'the workload runs', () => ledger.seen(host.id, 'm-1', 'running'))
    expect(running).toMatchObject({ sshUser: 'tenant' })
    const boots = host.boots()
    ledger.want(host.id, [{ ...workloadOf('m-1', host), want: 'gone', started: true }])
    await until(keeping, 'the workload is gone', () => {
      const report = ledger.reports.get(host.id)
      return report?.generation === ledger.generationOf(host.id) && report.workloads.length === 0
    })
    expect(ledger.everSaid(host.id, 'm-1').join()).toMatch(/cleaning: (remove|reboot)/)
    expect(host.boots()).toBe(boots + 1)
    ledger.want(host.id, [workloadOf('m-2', host)])
    await until(keeping, 'the next workload runs', () => ledger.seen(host.id, 'm-2', 'running'))
    await keeping.close()
    // Another server continues.
    const other = keepingOf(ledger)
    ledger.want(host.id, [{ ...workloadOf('m-2', host), want: 'gone', started: true }])
    await until(other, 'the workload is gone', () => ledger.reports.get(host.id)?.workloads.length === 0)
    await other.close()
    expect(ledger.moves).toEqual([`${host.id} ready`])
  })

  test('reboots a host for its tenant, who stays and is shown running all the while', async () => {
    const host = at(lab, 0)
    const ledger = new TestLedger([host])
    const keeping = keepingOf(ledger)
    await until(keeping, 'the host is ready', () => ledger.stateOf(host.id) === 'ready')
    ledger.want(host.id, [workloadOf('m-4', host)])
    const before = await until(keeping, 'the workload runs', () => ledger.seen(host.id, 'm-4', 'running'))
    const boots = host.boots()
    ledger.want(host.id, [{ ...workloadOf('m-4', host), started: true, reboots: 1 }])
    const after = await until(keeping, 'the workload is in another run', () => {
      const seen = ledger.seen(host.id, 'm-4', 'running')
      return seen?.incarnation !== before.incarnation && seen?.message === undefined && seen
    })
    expect(after).toMatchObject({ sshUser: 'tenant' })
    expect(ledger.everSaid(host.id, 'm-4')).toContain(REBOOTING)
    expect(ledger.statesSince(host.id, 'm-4', 'running')).toEqual(['running'])
    // Another server knows that it has had this reboot, and does the next.
    await keeping.close()
    const other = keepingOf(ledger)
    ledger.want(host.id, [{ ...workloadOf('m-4', host), started: true, reboots: 1 }])
    await until(other, 'a report', () => ledger.reports.get(host.id)?.generation === ledger.generationOf(host.id))
    expect(host.boots()).toBe(boots + 1)
    ledger.want(host.id, [{ ...workloadOf('m-4', host), started: true, reboots: 2 }])
    await until(other, 'the second reboot', () => host.boots() === boots + 2)
    // What should go does not wait for the reboot.
    ledger.want(host.id, [{ ...workloadOf('m-4', host), want: 'gone', started: true, reboots: 2 }])
    await until(other, 'the workload is gone', () => ledger.reports.get(host.id)?.workloads.length === 0)
    await other.close()
  })

  test('no longer reports a host that does not come back from a reboot, until it does', async () => {
    // Busybox would prefer its own `reboot` to ours.
    const host = at(lab, 0)
    const ledger = new TestLedger([host])
    const keeping = keepingOf(ledger, [], 2_000)
    await until(keeping, 'the host is ready', () => ledger.stateOf(host.id) === 'ready')
    ledger.want(host.id, [workloadOf('m-5', host)])
    const before = await until(keeping, 'the workload runs', () => ledger.seen(host.id, 'm-5', 'running'))
    await host.exec(['sh', '-c', 'mkdir -p /usr/local/sbin && cp /usr/sbin/poweroff /usr/local/sbin/reboot'])
    const log: string[] = []
    await keeping.close()
    const impatient = keepingOf(ledger, log, 2_000)
    ledger.want(host.id, [{ ...workloadOf('m-5', host), started: true, reboots: 1 }])
    await until(impatient, 'it gives up', () => log.some((line) => line.includes('has not come back in 2 s')))
    await until(impatient, 'it cannot check the host', () => log.some((line) => line.includes('could not check')))
    // The last that it said.
    expect(ledger.reports.get(host.id)?.workloads).toMatchObject([{ id: 'm-5', state: 'running', message: REBOOTING }])
    await host.powerOn()
    await host.exec(['rm', '/usr/local/sbin/reboot'])
    await until(impatient, 'it runs again', () => {
      const seen = ledger.seen(host.id, 'm-5', 'running')
      return seen?.incarnation !== before.incarnation && seen?.message === undefined
    })
    await impatient.close()
    const last = keepingOf(ledger)
    ledger.want(host.id, [{ ...workloadOf('m-5', host), want: 'gone', started: true, reboots: 1 }])
    await until(last, 'the workload is gone', () => ledger.reports.get(host.id)?.workloads.length === 0)
    await last.close()
  })

  test('quarantines a host whose cleaning fails, and only locks tenants out until it is released', async () => {
    const host = at(lab, 1)
    const ledger = new TestLedger([host])
    const keeping = keepingOf(ledger)
    await until(keeping, 'the host is ready', () => ledger.stateOf(host.id) === 'ready')
    ledger.want(host.id, [workloadOf('m-3', host)])
    await until(keeping, 'the workload runs', () => ledger.seen(host.id, 'm-3', 'running'))
    await host.makeReadOnly()
    ledger.want(host.id, [{ ...workloadOf('m-3', host), want: 'gone', started: true }])
    await until(keeping, 'the host is quarantined', () => ledger.stateOf(host.id) === 'quarantined')
    expect(ledger.quarantined).toEqual([{ id: host.id, workloadId: 'm-3', reason: expect.stringMatching(/^remove: /) }])
    const keysOf = () => host.exec(['sh', '-c', 'cat /home/tenant/.ssh/authorized_keys 2> /dev/null; true'])
    expect(await keysOf()).toBe('')
    // The read-only disk still has the keys after a reboot, so the tenant is locked out again.
    await host.powerCycle()
    await waitFor('the keys are gone again', async () => {
      await keeping.run(new AbortController().signal)
      return (await keysOf()) === ''
    })
    expect(ledger.everGone(host.id, 'm-3')).toBe(false)
    const boots = host.boots()
    await host.makeWritable()
    for (let pass = 0; pass < 5; pass += 1) await keeping.run(new AbortController().signal)
    expect(await host.exec(['grep', '-c', '^tenant:', '/etc/passwd'])).toBe('1\n')
    expect(host.boots()).toBe(boots)
    ledger.move(host.id, 'cleaning', 'released')
    await until(keeping, 'the host is ready again', () => ledger.stateOf(host.id) === 'ready')
    expect(host.boots()).toBe(boots + 1)
    expect(await host.exec(['sh', '-c', 'grep -c ^tenant: /etc/passwd; ls -A /var/lib/berth'])).toBe('0\n')
    await keeping.close()
  })

  test('quarantines a new host that differs from its declaration, and retries one that does not answer', async () => {
    const [wrong, silent] = [at(lab, 0), at(lab, 1)]
    const ledger = new TestLedger([wrong, silent])
    ledger.declare(wrong.id, { cpuCores: 77 })
    silent.linkDown()
    const log: string[] = []
    const keeping = keepingOf(ledger, log)
    const boots = wrong.boots()
    await until(keeping, 'the differing host is quarantined', () => ledger.stateOf(wrong.id) === 'quarantined')
    expect(ledger.quarantined[0]?.reason).toContain('77 are declared')
    expect(wrong.boots()).toBe(boots)
    expect(ledger.stateOf(silent.id)).toBe('cleaning')
    silent.linkUp()
    await until(keeping, 'the silent host is ready', () => ledger.stateOf(silent.id) === 'ready')
    await keeping.close()
  })

  test('lets one server at a time work on a host', async () => {
    const host = at(lab, 0)
    const ledger = new TestLedger([host])
    const [first, second] = [keepingOf(ledger), keepingOf(ledger)]
    await until(first, 'the host is ready', () => ledger.stateOf(host.id) === 'ready')
    const holder = ledger.holderOf(host.id)
    for (let pass = 0; pass < 3; pass += 1) await second.run(new AbortController().signal)
    expect(ledger.holderOf(host.id)).toBe(holder)
    await first.close()
    await until(
      second,
      'the other server holds the lease',
      () => ![undefined, holder].includes(ledger.holderOf(host.id)),
    )
    await second.close()
    expect(ledger.holderOf(host.id)).toBe(undefined)
  })
})

/** The database in memory, as the loop needs it. */
class TestLedger implements MetalWorld {
  readonly reports = new Map<string, HostReport>()
  readonly learnt = new Map<string, string>()
  readonly moves: string[] = []
  readonly quarantined: { id: string; reason: string; workloadId: string | null }[] = []
  readonly #hosts = new Map<string, MetalHost>()
  readonly #wanted = new Map<string, Workload[]>()
  readonly #leases = new Map<string, string>()
  readonly #saved: { id: string; report: HostReport }[] = []
  #tokens = 0

  constructor(hosts: readonly MetalLabHost[]) {
    for (const host of hosts) this.#hosts.set(host.id, metalHostOf(host))
  }

  stateOf(id: string): string | undefined {
    return this.#hosts.get(id)?.state
  }
  generationOf(id: string): number {
    return this.#hosts.get(id)?.generation ?? 0
  }
  holderOf(id: string): string | undefined {
    return this.#leases.get(id)
  }
  seen(id: string, workloadId: string, state: string) {
    return this.reports.get(id)?.workloads.find((one) => one.id === workloadId && one.state === state)
  }
  /** The messages of all its reports. */
  everSaid(id: string, workloadId: string): string[] {
    return this.#saved.flatMap(({ id: of, report }) =>
      of === id ? report.workloads.flatMap((one) => (one.id === workloadId ? [one.message ?? ''] : [])) : [],
    )
  }
  /** The states of its reports from the first with this one, without repeats. */
  statesSince(id: string, workloadId: string, first: string): string[] {
    const states = this.#saved.flatMap(({ id: of, report }) =>
      of === id ? report.workloads.flatMap((one) => (one.id === workloadId ? [one.state] : [])) : [],
    )
    return [...new Set(states.slice(states.findIndex((state) => state === first)))]
  }
  /** Whether any report of the current generation lacked it. */
  everGone(id: string, workloadId: string): boolean {
    return this.#saved.some(
      ({ id: of, report }) =>
        of === id &&
        report.generation === this.generationOf(id) &&
        report.workloads.every((one) => one.id !== workloadId),
    )
  }
  want(id: string, workloads: Workload[]): void {
    this.#wanted.set(id, workloads)
    this.#change(id, { generation: this.generationOf(id) + 1 })
  }
  move(id: string, state: MetalHost['state'], why: string | null): void {
    this.#change(id, { state, reason: why })
  }
  declare(id: string, declared: Partial<MetalHost['declared']>): void {
    const host = this.#hosts.get(id)
    if (host !== undefined) this.#change(id, { declared: { ...host.declared, ...declared } })
  }
  #change(id: string, change: Partial<MetalHost>): void {
    const host = this.#hosts.get(id)
    if (host !== undefined) this.#hosts.set(id, { ...host, ...change })
  }

  async listMetalHosts(): Promise<MetalHost[]> {
    return [...this.#hosts.values()]
  }
  async takeHost(id: string): Promise<string | undefined> {
    if (this.#leases.has(id)) return undefined
    this.#tokens += 1
    this.#leases.set(id, String(this.#tokens))
    return String(this.#tokens)
  }
  async renewHost(id: string, token: string): Promise<boolean> {
    return this.#leases.get(id) === token
  }
  async giveHost(id: string, token: string): Promise<void> {
    if (this.#leases.get(id) === token) this.#leases.delete(id)
  }
  async readDesired(id: string): Promise<Desired> {
    const host = this.#hosts.get(id)
    if (host === undefined) throw new Error('no such host')
    const { generation, state } = host
    return { type: 'desired', generation, state, workloads: this.#wanted.get(id) ?? [], volumes: [] }
  }
  async saveReport(id: string, report: HostReport): Promise<void> {
    this.reports.set(id, report)
    this.#saved.push({ id, report })
  }
  async quarantine(id: string, why: string, workloadId: string | null): Promise<void> {
    this.quarantined.push({ id, reason: why, workloadId })
    this.move(id, 'quarantined', why)
  }
  async admit(id: string): Promise<void> {
    this.moves.push(`${id} ready`)
    this.move(id, 'ready', null)
  }
  async learnHostKey(id: string, fingerprint: string): Promise<void> {
    this.learnt.set(id, fingerprint)
    const host = this.#hosts.get(id)
    if (host !== undefined) this.#change(id, { access: { ...host.access, hostKey: fingerprint } })
  }
}

function at(lab: MetalLab, index: number): MetalLabHost {
  const host = lab.hosts[index]
  if (host === undefined) throw new Error('no such host')
  return host
}

function metalHostOf({ id, address, port, user, privateKey }: MetalLabHost): MetalHost {
  const cpuCores = (fs.readFileSync('/proc/cpuinfo', 'utf8').match(/^processor/gm) ?? []).length
  const ramGb = os.totalmem() / 1_073_741_824
  return {
    id,
    state: 'cleaning',
    reason: 'new',
    generation: 1,
    access: metalAccess.parse({ address, port, user, privateKey }),
    declared: { cpuCores, ramGb, tolerance: 0.1 },
    address: { hostname: id, publicIp: address, privateIp: address, sshPort: port },
    offer: {
      clusterName: 'lab',
      region: 'lab-1',
      offering: 'bare-metal',
      gpuType: 'h100',
      gpuModel: 'H100',
      gpuRamMib: 81_559,
      gpuFormFactor: 'sxm5',
      networkType: 'ethernet',
      ethernetVariant: null,
      gpusTotal: 8,
      gpusSick: [],
      priceUsdPerGpuHour: null,
      hasPersistentStorage: true,
      simulated: true,
      hardware: {
        cpuModel: 'any',
        cpuCores,
        virtualCores: cpuCores,
        ramGb,
        storageGb: 100,
        gpuClockMhz: 1_980,
        gpuComputePower: 67,
        gpuInterface: 'PCIe 5 x16',
      },
    },
  }
}

const { publicKey } = makeSshKeyPair('tenant')

function workloadOf(id: string, host: MetalLabHost): Workload {
  return {
    id,
    tag: `berth-lab-${id}`,
    want: 'run',
    started: false,
    spec: {
      kind: 'bare-metal',
      name: 'one',
      gpuCount: 8,
      resources: { cpuModel: 'any', cpuCount: 2, ramGb: 16, storageGb: 100 },
      sshKeys: [publicKey],
      ports: [],
      image: null,
    },
    node: { index: 0, gpuIndexes: [], peers: [{ hostname: host.id, privateIp: host.address }] },
    disks: [],
    baseImage: null,
  }
}
