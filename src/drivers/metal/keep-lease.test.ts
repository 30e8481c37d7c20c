/** A host has one server at a time; another takes over soon after that one dies or loses its database. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import ssh2 from 'ssh2'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { makeSshKeyPair } from '../../base/ssh-key-pair.ts'
import { SILENT_MS } from '../../domain/host.ts'
import { metalAccess } from '../../runtimes/ssh/access.ts'
import { keepMetal, type MetalKeeping } from './keep.ts'
import type { MetalHost, MetalWorld } from './world.ts'

/** Time before the host counts as silent, for the age of the last check and for the next one. */
const MIN_MARGIN_MS = 5_000
/** Timers count whole milliseconds and may fire early. */
const TIMER_MS = 10

/** A host whose scripts never end, so a server that starts one stays busy. */
let slow: ssh2.Server
let seen: { scripts: number; cut: number }
let keepings: MetalKeeping[]
const keys = makeSshKeyPair('keep-lease')

beforeEach(async () => {
  // Per test: the previous test's server may still be closing.
  const here = { scripts: 0, cut: 0 }
  seen = here
  keepings = []
  slow = new ssh2.Server({ hostKeys: [keys.privateKey] }, (client) => {
    client.on('authentication', (context) => context.accept())
    client.on('session', (acceptSession) => {
      acceptSession().on('exec', (acceptExec) => {
        acceptExec()
        here.scripts += 1
      })
    })
    client.on('error', () => {})
    client.on('close', () => (here.cut += 1))
  })
  slow.listen(0, '127.0.0.1')
  await once(slow, 'listening')
})
afterEach(async () => {
  await Promise.all(keepings.map((keeping) => keeping.close()))
  const closed = once(slow, 'close')
  slow.close()
  await closed
})

function keepingOf(world: MetalWorld, warn: (facts: object, message: string) => void = () => {}): MetalKeeping {
  const keeping = keepMetal({ world, clusterSecret: 'a secret of tests', log: { warn } })
  keepings.push(keeping)
  return keeping
}

const pass = (keeping: MetalKeeping): Promise<boolean> => keeping.run(new AbortController().signal)

test('keeps the lease of a busy server; after its death another server takes over before the host counts as silent', async () => {
  const leases = makeLeases()
  const [first, second] = [keepingOf(leases.worldOf('first')), keepingOf(leases.worldOf('second'))]
  await waitFor('the first server to be busy', async () => (await pass(first), seen.scripts === 1))
  const token = leases.token()
  await waitFor('the lease to be renewed past its first expiry', async () => {
    await pass(first)
    await pass(second)
    return leases.isPastFirstEnd()
  })
  expect(seen.cut).toBe(0)
  expect([leases.holder(), leases.token()]).toEqual(['first', token])
  // The first server makes no more passes and does not release its lease.
  const diedAt = performance.now()
  await waitFor('the second server to take the lease', async () => (await pass(second), leases.holder() === 'second'))
  expect(performance.now() - diedAt).toBeLessThan(SILENT_MS - MIN_MARGIN_MS)
  await waitFor('the second server to be busy', async () => (await pass(second), seen.scripts === 2))
  expect(seen.cut).toBe(1)
})

test('stops working on a host when its lease ends while the database is unreachable', async () => {
  const leases = makeLeases()
  const keeping = keepingOf(leases.worldOf('first'))
  await waitFor('the server to be busy', async () => (await pass(keeping), seen.scripts === 1))
  leases.breakDown()
  await expect(pass(keeping)).rejects.toThrow('no database')
  await waitFor('its connection to end', () => seen.cut === 1)
  expect(leases.isPastFirstEnd()).toBe(true)
})

test('logs each kind of host failure once, however often it is retried', async () => {
  const logged: string[] = []
  let tries = 0
  let why = 'timed out'
  const world: MetalWorld = {
    ...makeLeases().worldOf('first'),
    listMetalHosts: async () => [{ ...metalHost(), state: 'ready', reason: null }],
    readDesired: async () => {
      tries += 1
      throw new Error(`${why} after ${tries} ms`)
    },
  }
  const keeping = keepingOf(world, (facts) => logged.push((facts as { error: string }).error))
  await waitFor('ten tries', async () => (await pass(keeping), tries >= 10))
  expect(logged).toEqual(['timed out after 1 ms'])
  why = 'refused'
  const before = tries
  await waitFor('ten more tries', async () => (await pass(keeping), tries >= before + 10))
  expect(logged).toHaveLength(2)
  expect(logged[1]).toContain('refused')
})

/** An in-memory database with leases like those in PostgreSQL, and one host. */
function makeLeases() {
  let lease: { holder: string; token: string; until: number } | undefined
  let [tokens, firstEnd, isBroken] = [0, Number.POSITIVE_INFINITY, false]
  const host = metalHost()
  const none = async (): Promise<never> => {
    throw new Error('a host that never answers gets no further')
  }
  const worldOf = (name: string): MetalWorld => ({
    async listMetalHosts() {
      if (isBroken) throw new Error('no database')
      return [host]
    },
    async takeHost(_, leaseMs) {
      if (lease !== undefined && lease.until > performance.now()) return undefined
      tokens += 1
      lease = { holder: name, token: String(tokens), until: performance.now() + leaseMs }
      firstEnd = Math.min(firstEnd, lease.until)
      return lease.token
    },
    async renewHost(_, token, leaseMs) {
      if (lease?.token !== token) return false
      lease.until = performance.now() + leaseMs
      return true
    },
    async giveHost(_, token) {
      if (lease?.token === token) lease = undefined
    },
    readDesired: none,
    saveReport: none,
    quarantine: none,
    admit: none,
    learnHostKey: async () => {},
  })
  return {
    worldOf,
    holder: () => lease?.holder,
    token: () => lease?.token,
    isPastFirstEnd: () => performance.now() > firstEnd - TIMER_MS,
    breakDown: () => void (isBroken = true),
  }
}

function metalHost(): MetalHost {
  const { port } = slow.address() as AddressInfo
  return {
    id: 'slow',
    state: 'cleaning',
    reason: 'new',
    generation: 1,
    access: metalAccess.parse({ address: '127.0.0.1', port, user: 'root', privateKey: keys.privateKey }),
    declared: { cpuCores: 8, ramGb: 16, tolerance: 0.1 },
    address: { hostname: 'slow', publicIp: '127.0.0.1', privateIp: '127.0.0.1', sshPort: port },
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
        cpuCores: 8,
        virtualCores: 8,
        ramGb: 16,
        storageGb: 100,
        gpuClockMhz: 1_980,
        gpuComputePower: 67,
        gpuInterface: 'PCIe 5 x16',
      },
    },
  }
}
