/** The promises: a host has one server at a time, and one that dies or loses the books is soon followed by another. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import ssh2 from 'ssh2'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { makeSshKeyPair } from '../../base/ssh-key-pair.ts'
import { SILENT_MS } from '../../domain/host.ts'
import { metalAccess } from './access.ts'
import { keepMetal, type MetalHost, type MetalKeeping, type MetalWorld } from './keep.ts'

/** What is left of the silence for the age of the last look, and for the next one to be done. */
const LEAST_ROOM_MS = 5_000
/** Timers count whole milliseconds, and from an earlier one. */
const TIMER_MS = 10

/** A host on which every script runs for ever: whoever has begun with it is busy. */
let slow: ssh2.Server
let seen: { scripts: number; cut: number }
let keepings: MetalKeeping[]
const keys = makeSshKeyPair('keep-turn')

beforeEach(async () => {
  // Of this host: the last one may still be closing.
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
  const turns = makeTurns()
  const [first, second] = [keepingOf(turns.worldOf('first')), keepingOf(turns.worldOf('second'))]
  await waitFor('the first to be busy', async () => (await pass(first), seen.scripts === 1))
  const token = turns.token()
  await waitFor('the turn to be renewed past its first end', async () => {
    await pass(first)
    await pass(second)
    return turns.isPastFirstEnd()
  })
  expect(seen.cut).toBe(0)
  expect([turns.holder(), turns.token()]).toEqual(['first', token])
  // No pass of the first any more, and no goodbye.
  const diedAt = performance.now()
  await waitFor('the second to have it', async () => (await pass(second), turns.holder() === 'second'))
  expect(performance.now() - diedAt).toBeLessThan(SILENT_MS - LEAST_ROOM_MS)
  await waitFor('the second to be busy', async () => (await pass(second), seen.scripts === 2))
  expect(seen.cut).toBe(1)
})

test('stops working on a host when its lease ends while the database is unreachable', async () => {
  const turns = makeTurns()
  const keeping = keepingOf(turns.worldOf('first'))
  await waitFor('it to be busy', async () => (await pass(keeping), seen.scripts === 1))
  turns.breakDown()
  await expect(pass(keeping)).rejects.toThrow('no books')
  await waitFor('its connection to end', () => seen.cut === 1)
  expect(turns.isPastFirstEnd()).toBe(true)
})

test('logs each kind of host failure once, however often it is retried', async () => {
  const logged: string[] = []
  let tries = 0
  let why = 'timed out'
  const world: MetalWorld = {
    ...makeTurns().worldOf('first'),
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
  await waitFor('ten more', async () => (await pass(keeping), tries >= before + 10))
  expect(logged).toHaveLength(2)
  expect(logged[1]).toContain('refused')
})

/** The turns as PostgreSQL keeps them, in memory; of the rest of the books there is one host. */
function makeTurns() {
  let turn: { holder: string; token: string; until: number } | undefined
  let [tokens, firstEnd, isBroken] = [0, Number.POSITIVE_INFINITY, false]
  const host = metalHost()
  const none = async (): Promise<never> => {
    throw new Error('a host that never answers gets no further')
  }
  const worldOf = (name: string): MetalWorld => ({
    async listMetalHosts() {
      if (isBroken) throw new Error('no books')
      return [host]
    },
    async takeHost(_, leaseMs) {
      if (turn !== undefined && turn.until > performance.now()) return undefined
      tokens += 1
      turn = { holder: name, token: String(tokens), until: performance.now() + leaseMs }
      firstEnd = Math.min(firstEnd, turn.until)
      return turn.token
    },
    async renewHost(_, token, leaseMs) {
      if (turn?.token !== token) return false
      turn.until = performance.now() + leaseMs
      return true
    },
    async giveHost(_, token) {
      if (turn?.token === token) turn = undefined
    },
    readDesired: none,
    saveReport: none,
    quarantine: none,
    admit: none,
    learnHostKey: async () => {},
  })
  return {
    worldOf,
    holder: () => turn?.holder,
    token: () => turn?.token,
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
