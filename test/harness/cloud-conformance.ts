/**
 * The driver suite for a cloud and its simulator. A vendor's test describes its simulator (`CloudBench`) and gets all
 * promises of the driver port, of elastic engines, and of clouds: nothing stays behind, several accounts, and every
 * request and answer as described.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { HOUR_MS } from '../../src/base/instant.ts'
import { usd } from '../../src/base/money.ts'
import { unitId } from '../../src/domain/unit.ts'
import { tagOf, type RentalSpec } from '../../src/domain/rental.ts'
import type { ManualClock } from '../sim/clock.ts'
import type { BootedMachine } from '../sim/clouds/booted.ts'
import type { FleetFaults } from '../sim/clouds/fleet.ts'
import type { SimFault, SimServer } from '../sim/clouds/server.ts'
import type { ConformanceHarness, ConformanceOptions, FaultName } from '../../src/drivers/conformance-bench.ts'
import { sampleSpec } from '../../src/drivers/conformance-bench.ts'
import { driverConformance } from '../../src/drivers/conformance.ts'
import type { CloudVendor } from '../../src/drivers/clouds/cloud.ts'
import { cloudDriver, type CloudDriver } from '../../src/drivers/clouds/driver.ts'
import { memoryCloudWorld, type MemoryCloudWorld } from './cloud-world.ts'
import { pacedClock } from './paced-clock.ts'
import { offerIdOf } from '../../src/drivers/clouds/offer.ts'

/** One simulator, freshly made. */
export interface CloudBench {
  readonly server: SimServer
  readonly credentials: Readonly<Record<string, string>>
  /** An offer with room for at least two machines, and an order for it. */
  readonly offer: {
    readonly region: string
    readonly type: string
    readonly gpus: number
    readonly paysUsdPerGpuHour: string
  }
  /** Fields of the order that differ from the sample. */
  readonly spec?: Partial<RentalSpec>
  /** Names of operations of the simulator. */
  readonly operations: { readonly create: string; readonly list: string }
  /** The vendor's answer when there is no capacity. */
  readonly noCapacity: SimFault
  /** The next machine never boots. */
  failBoot(): void
  /** New machines are listed after the list lag of the vendor only. */
  lagList(): void
  /** The next machine is lost some time after it was listed. */
  loseMachine(): void
  /** The vendor refuses the next teardown. */
  refuseDestroy(): void
  setCapacity(units: number): void
  raiseCost(): void
  withdraw(): void
  /** What exists at the vendor. */
  leftovers(): string[]
  /** The vendor's bill by machine, as of now. */
  bills?(): ReadonlyArray<{ readonly name: string; readonly nanoUsd: bigint }>
  /** The machine of a tag, once it has booted. */
  booted?(tag: string): BootedMachine | undefined
  /** Running machines get a state that the driver does not know. */
  showStrangeState?(): void
  /** With the part `volumes`: the name of the operation that creates one, and a refusal of the next deletion. */
  readonly volumes?: { readonly create: string; readonly refuseDestroy: () => void }
}

/** The faults of a fleet. Machines are lost so long after they were ready. */
export function fleetFaults(
  sim: FleetFaults & { readonly server: SimServer },
  vendor: CloudVendor,
  loseAfterMs = 120_000,
): Pick<CloudBench, 'server' | 'failBoot' | 'lagList' | 'loseMachine' | 'refuseDestroy' | 'leftovers'> {
  return {
    server: sim.server,
    failBoot: () => void (sim.bootsFail = 1),
    lagList: () => void (sim.listLagMs = vendor.listLagMs),
    loseMachine: () => void (sim.loseAfterMs = loseAfterMs),
    refuseDestroy: () => void (sim.destroyRefusals = 1),
    leftovers: () => sim.leftovers(),
  }
}

export interface CloudConformanceOptions extends ConformanceOptions {
  readonly vendor: CloudVendor
  readonly makeBench: (clock: ManualClock) => CloudBench
  /** Which machines, for a vendor with several kinds. */
  readonly title?: string
}

const ACCOUNT = 'main'
const SECOND_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f second'

export function cloudConformance({ vendor, makeBench, title = vendor.id, ...options }: CloudConformanceOptions): void {
  const parts = options.parts ?? ['machines']
  driverConformance(
    `${title} at its simulator`,
    async () => {
      const opened = await openBench(vendor, makeBench)
      return harnessOf(vendor, opened, options.cannot ?? {})
    },
    { ...options, parts, elastic: true },
  )
  cloudTests(vendor, makeBench, title)
}

export interface OpenBench {
  readonly clock: ManualClock
  readonly bench: CloudBench
  readonly world: MemoryCloudWorld
  readonly driver: CloudDriver
  readonly warnings: string[]
  readonly baseUrl: string
  readonly spec: (overrides?: Partial<RentalSpec>) => RentalSpec
  close(): Promise<void>
}

export async function openBench(
  vendor: CloudVendor,
  makeBench: (clock: ManualClock) => CloudBench,
): Promise<OpenBench> {
  const clock = pacedClock()
  const bench = makeBench(clock)
  bench.server.limitsRate = true
  const baseUrl = await bench.server.listen()
  const world = memoryCloudWorld(clock, [{ name: ACCOUNT, baseUrl, credentials: bench.credentials }])
  const warnings: string[] = []
  const warn = (error: unknown, what: string): void => void warnings.push(`${what}: ${String(error)}`)
  const driver = cloudDriver(vendor, { world, clock, warn, allowPrivate: true, requestTimeoutMs: 5_000 })
  const { region, type, gpus, paysUsdPerGpuHour } = bench.offer
  const offerId = offerIdOf(vendor.id, { account: ACCOUNT, region, type })
  const gpuIndexes = Array.from({ length: gpus }, (_, n) => n)
  const spec = (overrides: Partial<RentalSpec> = {}): RentalSpec =>
    sampleSpec({
      gpuCount: gpus,
      nodes: [{ machineId: unitId(offerId, 1), gpuIndexes }],
      maxCostUsdPerGpuHour: paysUsdPerGpuHour,
      ...bench.spec,
      ...overrides,
    })
  return {
    clock,
    bench,
    world,
    driver,
    warnings,
    baseUrl,
    spec,
    close: async () => {
      clock.close()
      await driver.close()
      await bench.server.close()
    },
  }
}

function harnessOf(
  vendor: CloudVendor,
  opened: OpenBench,
  cannot: NonNullable<ConformanceOptions['cannot']>,
): ConformanceHarness {
  const { bench, clock, driver, spec } = opened
  const { server, operations } = bench
  const armed = (arm: () => void) => ({ arm })
  const { region, type } = bench.offer
  const volumes: CloudBench['volumes'] = bench.volumes
  const all: ConformanceHarness['faults'] = {
    'create-timeout': armed(() => server.arm(operations.create, { kind: 'late' })),
    'create-lost': armed(() => server.arm(operations.create, { kind: 'lost' })),
    'no-capacity': armed(() => server.arm(operations.create, bench.noCapacity)),
    'boot-fails': armed(() => bench.failBoot()),
    'list-lag': armed(() => bench.lagList()),
    vanish: armed(() => bench.loseMachine()),
    'destroy-refused': armed(() => bench.refuseDestroy()),
    unreachable: armed(() => void (server.down = true)),
    ...(volumes === undefined
      ? {}
      : {
          'volume-create-timeout': armed(() => server.arm(volumes.create, { kind: 'late' })),
          'volume-destroy-refused': armed(() => volumes.refuseDestroy()),
        }),
  } satisfies Partial<Record<FaultName, unknown>>
  const faults = Object.fromEntries(Object.entries(all).filter(([name]) => !(name in cannot)))
  return {
    driver,
    advance: async (ms) => clock.advance(ms),
    spec,
    faults,
    elastic: {
      offerId: offerIdOf(vendor.id, { account: ACCOUNT, region, type }),
      order: (_units, overrides) => spec(overrides),
      setCapacity: (units) => bench.setCapacity(units),
      raiseCost: () => bench.raiseCost(),
      withdraw: () => bench.withdraw(),
    },
    dispose: async () => {
      const { violations } = server
      await opened.close()
      expect(violations).toEqual([])
    },
  }
}

function cloudTests(vendor: CloudVendor, makeBench: CloudConformanceOptions['makeBench'], title: string): void {
  describe(`${title} as a cloud`, () => {
    const signal = new AbortController().signal
    const prefix = 'berth-cafe000000-'
    const tag = tagOf('cafe000000', 'rental', { id: 7, nonce: 'c0ffee00' })
    let opened: OpenBench
    beforeEach(async () => {
      opened = await openBench(vendor, makeBench)
    })
    afterEach(() => opened.close())

    const sweep = async (): Promise<void> => {
      const { companions } = opened.driver
      for (const companion of await companions.list(prefix, signal)) await companions.remove(companion, signal)
    }
    const untilGone = async (): Promise<void> => {
      for (let n = 0; n < 900; n += 1) {
        const left = await opened.driver.list(prefix, signal)
        if (left.length === 0) return
        for (const { externalId, state } of left)
          if (state !== 'stopping') await opened.driver.destroy(externalId, signal).catch(() => undefined)
        opened.clock.advance(1_000)
      }
      throw new Error('machines are left')
    }

    const untilRunning = async () => {
      for (let n = 0; n < 900; n += 1) {
        const running = (await opened.driver.list(tag, signal)).find(({ state }) => state === 'running')
        if (running !== undefined) return running
        opened.clock.advance(1_000)
      }
      throw new Error('the machine does not run')
    }

    it('leaves nothing at the vendor after the machine is gone and its companions are removed', async () => {
      expect((await opened.driver.create(tag, opened.spec(), signal)).kind).toBe('created')
      opened.clock.advance(vendor.listLagMs)
      await untilGone()
      await sweep()
      expect(opened.bench.leftovers()).toEqual([])
      expect(opened.bench.server.violations).toEqual([])
    })

    it('leaves nothing of a refused order', async () => {
      opened.bench.server.arm(opened.bench.operations.create, opened.bench.noCapacity)
      expect((await opened.driver.create(tag, opened.spec(), signal)).kind).toBe('refused')
      await sweep()
      expect(opened.bench.leftovers()).toEqual([])
    })

    it('finds what an attempt without an answer has made, and makes it no second time', async () => {
      const { bench, driver, clock, spec } = opened
      bench.server.arm(bench.operations.create, { kind: 'lost' })
      await expect(driver.create(tag, spec(), signal)).rejects.toBeInstanceOf(Error)
      clock.advance(vendor.listLagMs)
      expect(await driver.list(tag, signal)).toEqual([])
      const made = await driver.companions.list(tag, signal)
      expect((await driver.create(tag, spec(), signal)).kind).toBe('created')
      const now = await driver.companions.list(tag, signal)
      expect(now.filter(({ externalId }) => made.some((one) => one.externalId === externalId))).toEqual(made)
      expect(new Set(now.map(({ what }) => what)).size).toBe(now.length)
    })

    it('reports the cost of a machine under its account, by the rules of the vendor', async () => {
      const { driver, spec, bench } = opened
      await driver.create(tag, spec(), signal)
      const running = await untilRunning()
      expect(running.cost).toMatchObject({ account: ACCOUNT, ...vendor.billing })
      expect(running.cost?.perHour).toBeGreaterThan(0n)
      expect(bench.server.violations).toEqual([])
    })

    it('never pays more than the vendor bills for a machine, nor orders anything dearer than the offer (issue 31, 9)', async () => {
      const { driver, clock, spec, bench } = opened
      const order = spec()
      const orderedAt = clock.now()
      await driver.create(tag, order, signal)
      const running = await untilRunning()
      const perHour = running.cost?.perHour ?? 0n
      expect(perHour).toBeLessThanOrEqual(usd(order.maxCostUsdPerGpuHour ?? '0') * BigInt(order.gpuCount))
      clock.advance(HOUR_MS)
      expect((await untilRunning()).cost?.perHour).toBe(perHour)
      const { incrementMs, minimumMs } = vendor.billing
      const ms = Math.max(minimumMs, Math.ceil((clock.now() - orderedAt) / incrementMs) * incrementMs)
      const billed = bench.bills?.().find(({ name }) => name === tag)?.nanoUsd
      // Prices of parts are rounded up.
      const most = (perHour * BigInt(ms)) / BigInt(HOUR_MS) + 10n
      expect(billed ?? most).toBeLessThanOrEqual(most)
      expect(billed ?? perHour).toBeGreaterThanOrEqual((perHour * 9n) / 10n)
    })

    it('makes a machine that runs its script and admits all keys of the order as the user it names (issue 31, 9)', async () => {
      const { driver, spec, bench } = opened
      const sshKeys = [...spec().sshKeys, SECOND_KEY]
      await driver.create(tag, spec({ sshKeys }), signal)
      const { data } = await untilRunning()
      const machine = bench.booted?.(tag)
      if (bench.booted === undefined) return
      expect(machine?.ran).toBeDefined()
      expect(data?.sshNetworking?.map(({ user }) => user)).toEqual([machine?.user])
      const texts = sshKeys.map((key) => key.split(' ').slice(0, 2).join(' '))
      expect(texts.filter((key) => machine?.keys.includes(key) !== true)).toEqual([])
    })

    it('shows a machine in a state that it does not know as unreachable (issue 31, 9)', async () => {
      const { driver, spec, bench } = opened
      await driver.create(tag, spec(), signal)
      await untilRunning()
      if (bench.showStrangeState === undefined) return
      bench.showStrangeState()
      expect(await driver.list(tag, signal)).toMatchObject([{ tag, state: 'unreachable' }])
    })

    it('passes its check, and says what is not sold and why', async () => {
      const checks = await opened.driver.providers.check(ACCOUNT, signal)
      expect(checks?.filter(({ result }) => result === 'failed')).toEqual([])
      expect(await opened.driver.providers.check('nobody', signal)).toBeUndefined()
      const offers = (await opened.driver.providers.offers(ACCOUNT, signal)) ?? []
      expect(offers.some(({ unsold }) => unsold === null)).toBe(true)
    })

    it('keeps an account that answers apart from one that does not', async () => {
      const { world, driver, spec, clock } = opened
      const down = { name: 'down', baseUrl: 'http://127.0.0.1:1', credentials: opened.bench.credentials }
      world.add(down)
      world.orders.push({ tag: `${prefix}9-deadbeef`, externalId: 'down/x', machineId: '', isEnding: false })
      await driver.create(tag, spec(), signal)
      clock.advance(vendor.listLagMs)
      const listed = await driver.list(prefix, signal)
      expect(listed.map(({ state, externalId }) => [externalId.split('/')[0], state === 'unreachable'])).toEqual([
        [ACCOUNT, false],
        ['down', true],
      ])
      expect((await driver.inventory(signal)).length).toBeGreaterThan(0)
      expect(world.faults.get('down')?.kind).toBe('stale')
      expect(world.faults.get(ACCOUNT)).toBeUndefined()
      await expect(driver.destroy('down/x', signal)).rejects.toBeInstanceOf(Error)
    })

    it('never puts credentials into an error, and calls for the operator when they are rejected', async () => {
      const { world, driver } = opened
      const wrong = Object.fromEntries(
        Object.keys(opened.bench.credentials).map((name) => [name, `wrong-${name}-secret`]),
      )
      world.change(ACCOUNT, { credentials: wrong })
      const failed = await driver.inventory(signal).catch((error: unknown) => error)
      expect(failed).toBeInstanceOf(Error)
      const text = `${String(failed)} ${String((failed as Error).cause)} ${JSON.stringify([...world.faults.values()])}`
      for (const secret of Object.values(wrong)) expect(text).not.toContain(secret)
      expect(world.faults.get(ACCOUNT)?.kind).toBe('broken')
      world.change(ACCOUNT, { credentials: opened.bench.credentials })
      expect((await driver.inventory(signal)).length).toBeGreaterThan(0)
    })

    it('creates nothing at an account that takes no orders', async () => {
      opened.world.change(ACCOUNT, { closed: 'spending_cap' })
      expect(await opened.driver.inventory(signal)).toEqual([])
      expect(await opened.driver.create(tag, opened.spec(), signal)).toMatchObject({ reason: 'no_capacity' })
      expect(opened.bench.leftovers()).toEqual([])
    })
  })
}
