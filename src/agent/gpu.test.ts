/** From the output of `nvidia-smi` on a real H200 (and of older drivers, in their format) to the offer of a machine. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { writeNvidiaSmi } from '../../test/harness/nvidia-smi.ts'
import { hostOffer } from '../contract/agent.ts'
import { openAgentFolder, type AgentFolder } from './folder.ts'
import { xidsInLog } from './gpu-health.ts'
import { listGpus, type GpuListing } from './gpu-listing.ts'
import { parseSimulated, realGpus, simulatedGpus } from './gpu-source.ts'
import type { AgentTerms } from './identity.ts'
import { makeOffer } from './offer.ts'

const terms: AgentTerms = {
  name: null,
  clusterName: 'lab',
  region: 'local',
  offering: 'marketplace',
  networkType: 'ethernet',
  priceUsdPerGpuHour: '2.50',
  simulated: null,
}
/** The machine on which the fixture was recorded. */
const hardware = {
  cpuModel: 'Intel(R) Xeon(R) Processor',
  cpuCores: 16,
  virtualCores: 16,
  ramGb: 125.8,
  storageGb: 63.9,
}
const UUID = 'GPU-00000000-0000-4000-8000-000000000000'

const fixtures = 'test/fixtures/nvidia-smi'
let h200: { table: string; report: string }
let root: string
let folders = 0

beforeAll(async () => {
  h200 = {
    table: await readFile(`${fixtures}/h200-580.csv`, 'utf8'),
    report: await readFile(`${fixtures}/h200-580.txt`, 'utf8'),
  }
  root = await mkdtemp(path.join(os.tmpdir(), 'berth-gpu-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

/** The H200's row with some values replaced. */
function rowWith(changes: Readonly<Record<string, string>>): string {
  const [header = '', row = ''] = h200.table.trim().split('\n')
  const names = header.split(', ')
  for (const name of Object.keys(changes)) expect(names).toContain(name)
  return row
    .split(', ')
    .map((value, at) => changes[names[at] ?? ''] ?? value)
    .join(', ')
}

function tableOf(...rows: readonly string[]): string {
  return [h200.table.split('\n')[0], ...rows, ''].join('\n')
}

/** H200s with a uuid and a PCI address of their own. */
function tableOfMany(numbers: readonly number[]): string {
  return tableOf(...numbers.map((number) => rowWith({ uuid: uuid(number), 'pci.bus_id': `00000000:0${number}:00.0` })))
}

function uuid(number: number): string {
  return UUID.replace(/.$/, String(number))
}

/** An nvidia-smi with replaceable output, and a folder that remembers GPUs. */
async function fakeDriver(output: { table: string; report?: string }) {
  folders += 1
  const dir = path.join(root, `agent-${folders}`)
  const folder: AgentFolder = openAgentFolder(dir)
  const program = await writeNvidiaSmi(dir, output)
  const kernelLog = path.join(dir, 'kmsg')
  await writeFile(kernelLog, '')
  const print = (table: string): Promise<void> => writeFile(path.join(dir, 'table.csv'), table)
  const fail = (message: string): Promise<void> => writeFile(path.join(dir, 'failure.txt'), message)
  const open = () => realGpus({ program, folder, kernelLog })
  return { dir, folder, program, print, fail, open, kernelLog }
}

async function list(output: { table: string; report?: string }): Promise<GpuListing> {
  return listGpus((await fakeDriver(output)).program)
}

describe('a real H200', () => {
  test('is listed as the fixture says', async () => {
    const { open } = await fakeDriver(h200)
    const source = open()
    const snapshot = await source.read()
    source.close()
    const offer = makeOffer(terms, hardware, snapshot)
    expect(hostOffer.parse(offer)).toEqual(JSON.parse(await readFile('test/fixtures/h200-listing.json', 'utf8')))
    expect(snapshot.notes).toEqual([])
  })

  test('is healthy with corrected errors and rows that were remapped in time', async () => {
    expect(h200.report).toMatch(/DRAM Correctable +: 2/)
    expect(h200.report).toMatch(/Remapped Rows\n +Correctable Error +: 1/)
    expect((await list(h200)).gpus).toMatchObject([{ problems: [] }])
  })

  test('reports its use', async () => {
    expect((await list(h200)).gpus[0]).toMatchObject({
      gpu: { uuid: UUID, pciAddress: '00000000:00:06.0' },
      use: {
        utilizationPercent: 0,
        memoryUsedMib: 0,
        memoryTotalMib: 143_771,
        powerWatts: 119.48,
        temperatureCelsius: 36,
      },
    })
  })

  test('keeps the order of eight', async () => {
    const { open } = await fakeDriver({ ...h200, table: tableOfMany([0, 1, 2, 3, 4, 5, 6, 7]) })
    const source = open()
    const snapshot = await source.read()
    source.close()
    expect(snapshot.gpus.map(({ gpu }) => gpu.uuid)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map(uuid))
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({ gpusTotal: 8, gpusSick: [] })
  })
})

describe('other drivers', () => {
  const read = async (name: string): Promise<GpuListing> =>
    list({
      table: await readFile(`${fixtures}/${name}.csv`, 'utf8'),
      ...(name === 'v100-418' ? {} : { report: await readFile(`${fixtures}/${name}.txt`, 'utf8') }),
    })

  test('535 has no recovery action; a pending row remapping comes from the report', async () => {
    expect(await read('a100-535')).toMatchObject({
      driver: '535.161.08',
      cuda: '12.2',
      gpus: [
        {
          gpu: { name: 'NVIDIA A100-SXM4-80GB', ramMib: 81_920, interface: 'SXM4' },
          use: { utilizationPercent: null, powerWatts: 63.21 },
          problems: ['memory rows need a reset to be remapped'],
        },
      ],
    })
  })

  test('550 on a GeForce has no ECC: [N/A] is not a problem', async () => {
    expect(await read('rtx4090-550')).toMatchObject({
      driver: '550.144.03',
      cuda: '12.4',
      gpus: [{ gpu: { clockMhz: 3_105, interface: 'PCIe 4.0 x16' }, problems: [] }],
    })
  })

  test('418 has no row remapper and prints [Not Supported]', async () => {
    const listing = await read('v100-418')
    expect(listing).toMatchObject({
      driver: '418.226.00',
      gpus: [{ gpu: { name: 'Tesla V100-PCIE-16GB' }, use: { powerWatts: null }, problems: [] }],
    })
    expect(listing.cuda).toBeUndefined()
  })
})

describe('a GPU is unhealthy', () => {
  test.each([
    ['ecc.errors.uncorrected.volatile.total', '3', 'uncorrectable memory errors since the driver loaded: 3'],
    ['retired_pages.pending', 'Yes', 'pages need a reset'],
    ['gpu_recovery_action', 'Reset', 'the driver asks for: Reset'],
    ['temperature.gpu', 'ERR!', 'temperature.gpu is "ERR!"'],
    ['utilization.gpu', '[GPU is lost]', 'utilization.gpu is "[GPU is lost]"'],
    ['power.draw', '[Unknown Error]', 'power.draw is "[Unknown Error]"'],
    ['pstate', '[GPU requires reset]', 'pstate is "[GPU requires reset]"'],
  ])('when %s is %s', async (field, text, problem) => {
    const listing = await list({ ...h200, table: tableOf(rowWith({ [field]: text })) })
    expect(listing.gpus.map(({ problems }) => problems)).toEqual([[expect.stringContaining(problem)]])
  })

  test.each([
    ['SRAM Threshold Exceeded', 'SRAM'],
    ['Unrepairable Memory', 'cannot be repaired'],
    ['Channel Repair Pending', 'memory channel'],
    ['TPC Repair Pending', 'core repair'],
    ['Pending', 'to be remapped'],
    ['Remapping Failure Occurred', 'could not be remapped'],
  ])('when the report says %s: Yes', async (name, problem) => {
    const report = h200.report.replace(new RegExp(`^( +${name} +: )No$`, 'm'), '$1Yes')
    expect(report).not.toBe(h200.report)
    const listing = await list({ ...h200, report })
    expect(listing.gpus.map(({ problems }) => problems)).toEqual([[expect.stringContaining(problem)]])
  })

  test('after a fatal Xid in the kernel log, not after one that a program causes', async () => {
    const { open, kernelLog } = await fakeDriver(h200)
    const source = open()
    expect((await source.read()).gpus[0]?.problems).toEqual([])
    await writeFile(kernelLog, '4,1,2,-;NVRM: Xid (PCI:0000:00:06): 31, pid=1, name=python, MMU Fault\n')
    expect((await source.read()).gpus[0]?.problems).toEqual([])
    await writeFile(
      kernelLog,
      `${await readFile(kernelLog, 'utf8')}2,2,3,-;NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus.\n`,
    )
    const snapshot = await source.read()
    source.close()
    expect(snapshot.gpus[0]?.problems).toEqual(['the driver reported Xid 79 (fallen off the bus)'])
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({ gpusTotal: 1, gpusSick: [0] })
  })

  test('only where the Xid names its address', () => {
    const xids = xidsInLog('NVRM: Xid (PCI:0000:1a:00): 48, x\nNVRM: Xid (PCI:0000:1b:00.0): 13, y\n')
    expect([...xids.keys()]).toEqual(['0000:1a:00'])
  })
})

describe('a missing GPU', () => {
  test('keeps its index across restarts and counts as unhealthy', async () => {
    const { open, print } = await fakeDriver({ ...h200, table: tableOfMany([0, 1, 2]) })
    const first = open()
    await first.read()
    await print(tableOfMany([0, 2]))
    const snapshot = await first.read()
    first.close()
    expect(snapshot.gpus.map(({ gpu }) => gpu.uuid)).toEqual([uuid(0), uuid(1), uuid(2)])
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({ gpusTotal: 3, gpusSick: [1] })
    expect(snapshot.notes).toEqual([`GPU 1 (${uuid(1)}) is unhealthy and not offered: no longer listed by the driver.`])
    const next = open()
    expect(makeOffer(terms, hardware, await next.read())).toMatchObject({ gpusTotal: 3, gpusSick: [1] })
    await print(tableOfMany([0, 1, 2]))
    expect(makeOffer(terms, hardware, await next.read())).toMatchObject({ gpusTotal: 3, gpusSick: [] })
    next.close()
  })

  test('all are unhealthy when the driver fails, with the reason', async () => {
    const { open, fail } = await fakeDriver({ ...h200, table: tableOfMany([0, 1]) })
    const source = open()
    await source.read()
    await fail('Unable to determine the device handle for GPU0: Unknown Error\n')
    const snapshot = await source.read()
    source.close()
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({
      gpuModel: 'NVIDIA-H200',
      gpusTotal: 2,
      gpusSick: [0, 1],
    })
    expect(snapshot.notes[0]).toContain('Unable to determine the device handle')
  })

  test('gives its index to the GPU that replaced it in its slot', async () => {
    const { open, print } = await fakeDriver({ ...h200, table: tableOfMany([0, 1]) })
    const source = open()
    await source.read()
    await print(tableOfMany([0, 1]).replace(uuid(0), uuid(9)))
    const snapshot = await source.read()
    source.close()
    expect(snapshot.gpus.map(({ gpu }) => gpu.uuid)).toEqual([uuid(9), uuid(1)])
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({ gpusTotal: 2, gpusSick: [] })
  })

  test('keeps the facts from when it was healthy', async () => {
    const { open, print } = await fakeDriver(h200)
    const source = open()
    await source.read()
    await print(tableOf(rowWith({ name: 'ERR!', 'memory.total': 'ERR!' })))
    const snapshot = await source.read()
    source.close()
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({
      gpuModel: 'NVIDIA-H200',
      gpuRamMib: 143_771,
      gpusSick: [0],
    })
  })
})

describe('other GPUs', () => {
  test.each([
    ['NVIDIA H100 80GB HBM3', { gpuType: 'h100', gpuFormFactor: 'sxm5' }, 'SXM5', 989],
    ['NVIDIA H100 PCIe', { gpuType: 'h100', gpuFormFactor: 'pcie' }, 'PCIe 5.0 x16', 756],
    ['NVIDIA H200 NVL', { gpuType: 'h200', gpuFormFactor: 'pcie' }, 'PCIe 5.0 x16', 835],
    ['NVIDIA B200', { gpuType: 'b200', gpuFormFactor: 'sxm6' }, 'SXM6', 2_250],
    ['NVIDIA A100-SXM4-40GB', { gpuType: null, gpuFormFactor: null }, 'SXM4', 312],
    ['NVIDIA GeForce RTX 4090', { gpuType: null, gpuFormFactor: 'pcie' }, 'PCIe 5.0 x16', 165],
    ['NVIDIA Something New', { gpuType: null, gpuFormFactor: 'pcie' }, 'PCIe 5.0 x16', 39.6],
  ])('%s', async (name, columns, gpuInterface, gpuComputePower) => {
    const listing = await list({ ...h200, table: tableOf(rowWith({ name })) })
    const offer = makeOffer(terms, hardware, { ...listing, simulated: false, notes: [] })
    expect(offer).toMatchObject({ ...columns, gpuModel: name.replaceAll(' ', '-') })
    expect(offer?.hardware).toMatchObject({ gpuInterface, gpuComputePower })
  })

  test('leaves out GPUs of another model, by name', async () => {
    const { open } = await fakeDriver({ ...h200, table: tableOfMany([0, 1, 2]).replace('NVIDIA H200', 'NVIDIA T400') })
    const source = open()
    const snapshot = await source.read()
    source.close()
    expect(snapshot.gpus.map(({ gpu }) => gpu.uuid)).toEqual([uuid(1), uuid(2)])
    expect(snapshot.notes[0]).toContain(`NVIDIA T400 (${uuid(0)}) is not offered`)
  })
})

describe('a machine without GPUs', () => {
  test('has none, with the reason', async () => {
    expect(await listGpus('/nowhere/nvidia-smi')).toEqual({
      gpus: [],
      reason: '/nowhere/nvidia-smi not found on this machine.',
    })
    const { open, fail, dir } = await fakeDriver({ table: tableOf() })
    await fail('NVIDIA-SMI has failed because it could not talk to the driver.\n')
    const source = open()
    const snapshot = await source.read()
    expect(snapshot.gpus).toEqual([])
    expect(snapshot.notes[0]).toContain('could not talk to the driver')
    expect(makeOffer(terms, hardware, snapshot)).toBeUndefined()
    await rm(path.join(dir, 'failure.txt'))
    expect((await source.read()).notes).toEqual(['The NVIDIA driver lists no GPU.'])
    source.close()
  })

  test('offers simulated GPUs, marked as such', async () => {
    const folder = openAgentFolder(path.join(root, 'simulated'))
    const source = simulatedGpus(parseSimulated('rtx4090:2'), folder)
    const offer = makeOffer(terms, hardware, await source.read())
    expect(hostOffer.parse(offer)).toMatchObject({
      gpuModel: 'NVIDIA-GeForce-RTX-4090',
      gpusTotal: 2,
      gpusSick: [],
      simulated: true,
      hardware: { gpuComputePower: 165, gpuInterface: 'PCIe 4.0 x16' },
    })
    folder.writeJson('sick.json', [1])
    const sick = await source.read()
    expect(makeOffer(terms, hardware, sick)).toMatchObject({ gpusTotal: 2, gpusSick: [1] })
    expect(sick.notes).toHaveLength(2)
    expect(sick.gpus[0]?.gpu.uuid).toMatch(/^GPU-sim-/)
  })

  test.each(['h100:0', 'h100:65', 'abacus:1', 'h100:', ':3', 'H100:1'])('rejects %s for simulation', (text) => {
    expect(() => parseSimulated(text)).toThrow('MODEL:COUNT')
  })
})
