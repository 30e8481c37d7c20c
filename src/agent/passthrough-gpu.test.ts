/** GPUs of hosts that sell virtual machines, from a PCI bus as sysfs shows it. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openAgentFolder } from './folder.ts'
import { realGpus, type GpuSnapshot } from './gpu-source.ts'
import { makeOffer } from './offer.ts'
import { listPassthroughGpus } from './passthrough-gpu.ts'

let root: string
beforeEach(() => (root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-sysfs-'))))
afterEach(() => fs.rmSync(root, { recursive: true, force: true }))

interface Device {
  readonly device?: string
  readonly vendor?: string
  readonly class?: string
  readonly group?: string
  readonly driver?: string
}

function add(address: string, { device = '2335', vendor = '10de', group = '7', driver, ...parts }: Device): void {
  const folder = path.join(root, 'sys/bus/pci/devices', address)
  fs.mkdirSync(folder, { recursive: true })
  const facts = { vendor: `0x${vendor}`, device: `0x${device}`, class: parts.class ?? '0x030200' }
  for (const [name, text] of Object.entries(facts)) fs.writeFileSync(path.join(folder, name), `${text}\n`)
  const members = path.join(root, 'sys/kernel/iommu_groups', group, 'devices')
  fs.mkdirSync(members, { recursive: true })
  fs.symlinkSync(path.dirname(members), path.join(folder, 'iommu_group'))
  fs.symlinkSync(folder, path.join(members, address))
  if (driver !== undefined) bind(address, driver)
}

function bind(address: string, driver: string): void {
  const target = path.join(root, 'sys/bus/pci/drivers', driver)
  fs.mkdirSync(target, { recursive: true })
  const link = path.join(root, 'sys/bus/pci/devices', address, 'driver')
  fs.rmSync(link, { force: true })
  fs.symlinkSync(target, link)
}

const snapshot = async (): Promise<GpuSnapshot> => {
  const folder = openAgentFolder(path.join(root, 'agent'))
  const source = realGpus({ list: async () => listPassthroughGpus(root), folder, kernelLog: path.join(root, 'kmsg') })
  const read = await source.read()
  source.close()
  return read
}

const terms = {
  name: null,
  clusterName: 'lab',
  region: 'us-central-2',
  offering: 'virtual-machine' as const,
  networkType: 'ethernet' as const,
  priceUsdPerGpuHour: null,
  simulated: null,
}
const hardware = { cpuModel: 'x', cpuCores: 8, virtualCores: 16, ramGb: 64, storageGb: 100 }

test('promise 46: GPUs bound to vfio-pci appear by themselves, with their model', async () => {
  add('0000:0a:00.0', { driver: 'vfio-pci', group: '7' })
  add('0000:0b:00.0', { driver: 'vfio-pci', group: '8' })
  add('0000:0c:00.0', { vendor: '8086', class: '0x020000', group: '9', driver: 'igb' })
  const { gpus, notes } = await snapshot()
  expect(notes).toEqual([])
  expect(gpus.map(({ gpu }) => [gpu.name, gpu.pciAddress, gpu.ramMib])).toEqual([
    ['NVIDIA H200', '00000000:0A:00.0', 143_771],
    ['NVIDIA H200', '00000000:0B:00.0', 143_771],
  ])
  expect(makeOffer(terms, hardware, { gpus, notes, simulated: false })).toMatchObject({
    gpuType: 'h200',
    gpuFormFactor: 'sxm5',
    gpusTotal: 2,
    gpusSick: [],
  })
})

test('promise 46: a GPU that shares its IOMMU group is refused, with all members of the group', async () => {
  add('0000:0a:00.0', { driver: 'vfio-pci', group: '7' })
  add('0000:0a:00.1', { class: '0x040300', group: '7', driver: 'snd_hda_intel' })
  add('0000:0d:00.0', { vendor: '144d', class: '0x010802', group: '7', driver: 'nvme' })
  add('0000:0e:00.0', { vendor: '8086', class: '0x020000', group: '7', driver: 'igb' })
  const { gpus } = await snapshot()
  expect(gpus.map(({ problems }) => problems)).toEqual([
    ['0000:0a:00.0 shares its IOMMU group 7 with 0000:0d:00.0, 0000:0e:00.0'],
  ])
})

test('a GPU keeps its index when its driver changes, and is sold from then on', async () => {
  add('0000:0a:00.0', { driver: 'nvidia', group: '7' })
  add('0000:0b:00.0', { driver: 'vfio-pci', group: '8' })
  const before = await snapshot()
  expect(makeOffer(terms, hardware, before)).toMatchObject({ gpusTotal: 2, gpusSick: [0] })
  bind('0000:0a:00.0', 'vfio-pci')
  expect(makeOffer(terms, hardware, await snapshot())).toMatchObject({ gpusTotal: 2, gpusSick: [] })
})

test('a GPU of an unknown model is left out, with its identifier', async () => {
  add('0000:0a:00.0', { device: 'ffff', driver: 'vfio-pci' })
  expect(await snapshot()).toMatchObject({ gpus: [], notes: [expect.stringContaining('10de:ffff')] })
})

test('a machine without GPUs says so', async () => {
  expect(await snapshot()).toMatchObject({ gpus: [], notes: ['This machine has no NVIDIA GPU.'] })
})
