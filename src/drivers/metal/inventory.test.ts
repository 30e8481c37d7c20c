/** Parsing the operator's inventory file, and reporting its errors. */
import ssh2 from 'ssh2'
import { expect, test } from 'vitest'
import { parseInventory } from './inventory.ts'

const { private: privateKey, public: publicKey } = ssh2.utils.generateKeyPairSync('ed25519')

const entry = {
  id: 'rack-1-a',
  clusterName: 'rack-1',
  region: 'eu-1',
  gpuType: 'h100',
  gpuModel: 'H100',
  gpuRamMib: 81_559,
  gpuFormFactor: 'sxm5',
  networkType: 'infiniband',
  gpusTotal: 8,
  hardware: {
    cpuModel: 'any',
    cpuCores: 64,
    virtualCores: 128,
    ramGb: 2_048,
    storageGb: 30_000,
    gpuClockMhz: 1_980,
    gpuComputePower: 67,
    gpuInterface: 'PCIe 5 x16',
  },
  hostname: 'rack-1-a.example',
  publicIp: '203.0.113.7',
  privateIp: '10.0.0.7',
  sshPort: 2_222,
  privateKey,
  scratch: ['/mnt/scratch'],
}

const faultsOf = (...hosts: object[]): readonly string[] => {
  const outcome = parseInventory(JSON.stringify({ hosts }))
  return outcome.kind === 'faulty' ? outcome.faults : []
}

test('reads the offer, the access and the declared hardware of a host', () => {
  const outcome = parseInventory(JSON.stringify({ hosts: [entry] }))
  if (outcome.kind !== 'read') throw new Error(outcome.faults.join())
  const [host] = outcome.hosts
  expect(host).toMatchObject({
    id: 'rack-1-a',
    offer: { offering: 'bare-metal', gpusTotal: 8, gpusSick: [], priceUsdPerGpuHour: null, simulated: false },
    address: { hostname: 'rack-1-a.example', publicIp: '203.0.113.7', privateIp: '10.0.0.7', sshPort: 2_222 },
    access: { address: '203.0.113.7', port: 2_222, user: 'root', tenantUser: 'tenant', tenantRoot: false, sudo: false },
    declared: { cpuCores: 128, ramGb: 2_048, gpus: { count: 8, model: 'H100' }, tolerance: 0.1 },
  })
  expect(JSON.stringify(host?.offer)).not.toContain('PRIVATE')
})

test('does not check simulated GPUs', () => {
  const outcome = parseInventory(JSON.stringify({ hosts: [{ ...entry, simulated: true }] }))
  expect(outcome).toMatchObject({ kind: 'read', hosts: [{ offer: { simulated: true } }] })
  expect(outcome.kind === 'read' && outcome.hosts[0]?.declared.gpus).toBe(undefined)
})

test('reports each error with its host and field, and without secrets', () => {
  const faults = faultsOf(
    { ...entry, gpusTotal: 'eight', privateIp: '10.0.0' },
    { ...entry, id: 'rack-1-b', publicIp: '203.0.113.8', privateKey: 'not a key at all', shell: 'sh' },
    { ...entry, id: 'rack-1-c', publicIp: '203.0.113.9', user: 'tenant' },
  )
  expect(faults.map((one) => one.split(':').slice(0, 2).join(':'))).toEqual([
    'host rack-1-a: gpusTotal',
    'host rack-1-a: privateIp',
    'host rack-1-b: privateKey',
    'host rack-1-b: the whole',
    'host rack-1-c: tenantUser',
  ])
  expect(faults.join()).not.toContain('not a key at all')
  expect(faultsOf({ ...entry, privateKey: publicKey }).join()).toMatch(/privateKey/)
})

test('rejects a duplicate id or address', () => {
  expect(faultsOf(entry, { ...entry, address: '203.0.113.8' })).toEqual(['host rack-1-a: id: duplicate id'])
  expect(faultsOf(entry, { ...entry, id: 'rack-1-b' }).join()).toContain('host rack-1-a already uses 203.0.113.7:2222')
})

test.each([
  '/',
  '/etc',
  '/usr/local',
  '/home',
  '/var',
  '/mnt',
  '/root/x',
  '/scratch/..',
  '/scratch/',
  'scratch',
  '/var/lib/berth',
])('rejects the scratch folder %s', (folder) => {
  expect(faultsOf({ ...entry, scratch: [folder] }).join()).toMatch(/host rack-1-a: scratch\.0/)
})

test('rejects a file that is not JSON or has no hosts', () => {
  expect(parseInventory('{')).toMatchObject({ kind: 'faulty', faults: [/^not JSON/] })
  expect(parseInventory('{}')).toMatchObject({ kind: 'faulty', faults: [/^hosts/] })
})
