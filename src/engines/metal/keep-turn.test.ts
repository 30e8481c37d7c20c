/** The promises: a host has one server at a time, and one that dies or loses the books is soon followed by another. */
import net, { type AddressInfo, type Socket } from 'node:net'
import ssh2 from 'ssh2'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { SILENT_MS } from '../../domain/host.ts'
import { metalAccess } from './access.ts'
import { keepMetal, type MetalHost, type MetalKeeping, type MetalWorld } from './keep.ts'

/** What is left of the silence for the age of the last look, and for the next one to be done. */
const LEAST_ROOM_MS = 5_000

/** A host that takes connections and never says a word: whoever looks at it is busy. */
let silent: net.Server
let sockets: Socket[]
let keepings: MetalKeeping[]

beforeEach(async () => {
  sockets = []
  keepings = []
  silent = net.createServer((socket) => {
    socket.on('error', () => {})
    sockets.push(socket)
  })
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
})
afterEach(async () => {
  await Promise.all(keepings.map((keeping) => keeping.close()))
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => silent.close(resolve))
})

function keepingOf(world: MetalWorld): MetalKeeping {
  const keeping = keepMetal({ world, clusterSecret: 'a secret of tests', log: { warn: () => {} } })
  keepings.push(keeping)
  return keeping
}

const pass = (keeping: MetalKeeping): Promise<boolean> => keeping.run(new AbortController().signal)

test('a server that is busy with a host keeps its turn; when it dies, another one has it before the host counts as silent', async () => {
  const turns = makeTurns()
  const [first, second] = [keepingOf(turns.worldOf('first')), keepingOf(turns.worldOf('second'))]
  await waitFor('the first to be busy', async () => (await pass(first), sockets.length === 1))
  const token = turns.token()
  await waitFor('the turn to be renewed past its first end', async () => {
    await pass(first)
    await pass(second)
    return turns.renewed() >= 3
  })
  expect([turns.holder(), turns.token()]).toEqual(['first', token])
  // No pass of the first any more, and no goodbye.
  const diedAt = performance.now()
  await waitFor('the second to have it', async () => (await pass(second), turns.holder() === 'second'))
  expect(performance.now() - diedAt).toBeLessThan(SILENT_MS - LEAST_ROOM_MS)
  expect(sockets[0]?.readableEnded || sockets[0]?.destroyed).toBe(true)
  await waitFor('the second to be busy', async () => (await pass(second), sockets.length === 2))
})

test('a server that cannot reach the books lets go of a host when its turn is over, without being told', async () => {
  const turns = makeTurns()
  const keeping = keepingOf(turns.worldOf('first'))
  await waitFor('it to be busy', async () => (await pass(keeping), sockets.length === 1))
  turns.breakDown()
  await expect(pass(keeping)).rejects.toThrow('no books')
  await waitFor('its connection to end', () => {
    sockets[0]?.resume()
    return sockets[0]?.readableEnded === true || sockets[0]?.destroyed === true
  })
})

/** The turns as PostgreSQL keeps them, in memory; of the rest of the books there is one host. */
function makeTurns() {
  let turn: { holder: string; token: string; until: number } | undefined
  let [tokens, renewed, isBroken] = [0, 0, false]
  const host = metalHost()
  const none = async (): Promise<never> => {
    throw new Error('nothing is done to a host that says nothing')
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
      return turn.token
    },
    async renewHost(_, token, leaseMs) {
      if (turn?.token !== token) return false
      turn.until = performance.now() + leaseMs
      renewed += 1
      return true
    },
    async giveHost(_, token) {
      if (turn?.token === token) turn = undefined
    },
    readDesired: none,
    saveReport: none,
    quarantine: none,
    admit: none,
    learnHostKey: none,
  })
  return {
    worldOf,
    holder: () => turn?.holder,
    token: () => turn?.token,
    renewed: () => renewed,
    breakDown: () => void (isBroken = true),
  }
}

function metalHost(): MetalHost {
  const { port } = silent.address() as AddressInfo
  const { private: privateKey } = ssh2.utils.generateKeyPairSync('ed25519')
  return {
    id: 'mute',
    state: 'cleaning',
    reason: 'new',
    generation: 1,
    access: metalAccess.parse({ address: '127.0.0.1', port, user: 'root', privateKey }),
    declared: { cpuCores: 8, ramGb: 16, tolerance: 0.1 },
    address: { hostname: 'mute', publicIp: '127.0.0.1', privateIp: '127.0.0.1', sshPort: port },
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
