/** From the output of `nvidia-smi` on a real H200 (and of older drivers, in their format) to the offer of a machine. */
import { readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  h200,
  h200Split,
  h200Uuid,
  openDriverLab,
  rowWith,
  tableOf,
  tableOfMany,
  uuidOf,
} from '../../test/harness/nvidia-smi.ts'
import { hostOffer } from '../contract/agent.ts'
import { openAgentFolder } from './folder.ts'
import { listGpus, type GpuListing } from './gpu-listing.ts'
import { parseSimulated, simulatedGpus } from './gpu-source.ts'
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

let lab: Awaited<ReturnType<typeof openDriverLab>>
beforeAll(async () => {
  lab = await openDriverLab()
})
afterAll(() => lab.close())

async function list(output: { table: string; report?: string }): Promise<GpuListing> {
  return listGpus((await lab.fakeDriver(output)).program)
}

describe('a real H200', () => {
  test('is listed as the fixture says', async () => {
    const { open } = await lab.fakeDriver(h200)
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
      gpu: { uuid: h200Uuid, pciAddress: '00000000:00:06.0' },
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
    const { open } = await lab.fakeDriver({ ...h200, table: tableOfMany([0, 1, 2, 3, 4, 5, 6, 7]) })
    const source = open()
    const snapshot = await source.read()
    source.close()
    expect(snapshot.gpus.map(({ gpu }) => gpu.uuid)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map(uuidOf))
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({ gpusTotal: 8, gpusSick: [] })
  })
})

describe('other drivers', () => {
  const read = async (name: string): Promise<GpuListing> =>
    list({
      table: await readFile(`test/fixtures/nvidia-smi/${name}.csv`, 'utf8'),
      ...(name === 'v100-418' ? {} : { report: await readFile(`test/fixtures/nvidia-smi/${name}.txt`, 'utf8') }),
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
})

describe('a missing GPU', () => {
  test('keeps its index across restarts and counts as unhealthy', async () => {
    const { open, print } = await lab.fakeDriver({ ...h200, table: tableOfMany([0, 1, 2]) })
    const first = open()
    await first.read()
    await print(tableOfMany([0, 2]))
    const snapshot = await first.read()
    first.close()
    expect(snapshot.gpus.map(({ gpu }) => gpu.uuid)).toEqual([uuidOf(0), uuidOf(1), uuidOf(2)])
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({ gpusTotal: 3, gpusSick: [1] })
    expect(snapshot.notes).toEqual([
      `GPU 1 (${uuidOf(1)}) is unhealthy and not offered: no longer listed by the driver.`,
    ])
    const next = open()
    expect(makeOffer(terms, hardware, await next.read())).toMatchObject({ gpusTotal: 3, gpusSick: [1] })
    await print(tableOfMany([0, 1, 2]))
    expect(makeOffer(terms, hardware, await next.read())).toMatchObject({ gpusTotal: 3, gpusSick: [] })
    next.close()
  })

  test('all are unhealthy when the driver fails, with the reason', async () => {
    const { open, fail } = await lab.fakeDriver({ ...h200, table: tableOfMany([0, 1]) })
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
    const { open, print } = await lab.fakeDriver({ ...h200, table: tableOfMany([0, 1]) })
    const source = open()
    await source.read()
    await print(tableOfMany([0, 1]).replace(uuidOf(0), uuidOf(9)))
    const snapshot = await source.read()
    source.close()
    expect(snapshot.gpus.map(({ gpu }) => gpu.uuid)).toEqual([uuidOf(9), uuidOf(1)])
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({ gpusTotal: 2, gpusSick: [] })
  })

  test('keeps the facts from when it was healthy', async () => {
    const { open, print } = await lab.fakeDriver(h200)
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
    const { open } = await lab.fakeDriver({
      ...h200,
      table: tableOfMany([0, 1, 2]).replace('NVIDIA H200', 'NVIDIA T400'),
    })
    const source = open()
    const snapshot = await source.read()
    source.close()
    expect(snapshot.gpus.map(({ gpu }) => gpu.uuid)).toEqual([uuidOf(1), uuidOf(2)])
    expect(snapshot.notes[0]).toContain(`NVIDIA T400 (${uuidOf(0)}) is not offered`)
  })
})

describe('promise 42: an H200 that MIG splits into two', () => {
  const uuids = [0, 1].map((number) => `MIG-00000000-0000-5000-8000-00000000000${number}`)

  test('has two GPUs with their own UUID and memory, which are not sold as an H200', async () => {
    const { open } = await lab.fakeDriver(h200Split)
    const source = open()
    const snapshot = await source.read()
    source.close()
    expect(snapshot.notes).toEqual([])
    expect(snapshot.gpus.map(({ gpu }) => [gpu.uuid, gpu.name, gpu.ramMib])).toEqual(
      uuids.map((uuid) => [uuid, 'NVIDIA H200 MIG 3g.71gb', 71_424]),
    )
    // A tenant had filled the second one.
    expect(snapshot.gpus.map(({ use }) => [use.memoryUsedMib, use.utilizationPercent])).toEqual([
      [556, null],
      [71_424, null],
    ])
    expect(hostOffer.parse(makeOffer(terms, hardware, snapshot))).toMatchObject({
      gpuType: null,
      gpuModel: 'NVIDIA-H200-MIG-3g.71gb',
      gpuRamMib: 71_424,
      gpusTotal: 2,
      gpusSick: [],
      hardware: { gpuComputePower: 424 },
    })
  })

  test('loses both to a fault of the card, and none to the crash of a tenant', async () => {
    const { open, log } = await lab.fakeDriver(h200Split)
    const source = open()
    await log('4,810,90000,-;NVRM: Xid (PCI:0000:00:06): 31, pid=554, name=python3, channel 0x00000023')
    expect((await source.read()).gpus.map(({ problems }) => problems)).toEqual([[], []])
    await log('4,812,91000,-;NVRM: Xid (PCI:0000:00:06): 79, pid=554, GPU has fallen off the bus.')
    const snapshot = await source.read()
    source.close()
    expect(makeOffer(terms, hardware, snapshot)).toMatchObject({ gpusTotal: 2, gpusSick: [0, 1] })
  })

  test('offers nothing without instances, and says why', async () => {
    const { open } = await lab.fakeDriver({ ...h200Split, list: h200Split.list.split('\n')[0] ?? '' })
    const source = open()
    const { gpus, notes } = await source.read()
    source.close()
    expect(gpus).toEqual([])
    expect(notes).toEqual([expect.stringContaining('nvidia-smi mig -cgi')])
  })

  test('keeps another profile out of the same machine', async () => {
    const list = h200Split.list.replace('3g.71gb     Device  1', '1g.18gb     Device  1')
    const { open } = await lab.fakeDriver({ ...h200Split, list })
    const source = open()
    const { gpus, notes } = await source.read()
    source.close()
    expect(gpus.map(({ gpu }) => gpu.uuid)).toEqual(uuids.slice(0, 1))
    expect(notes).toEqual([expect.stringContaining('NVIDIA H200 MIG 1g.18gb')])
  })
})

describe('a machine without GPUs', () => {
  test('has none, with the reason', async () => {
    expect(await listGpus('/nowhere/nvidia-smi')).toEqual({
      gpus: [],
      reason: '/nowhere/nvidia-smi not found on this machine.',
    })
    const { open, fail, dir } = await lab.fakeDriver({ table: tableOf() })
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
    const folder = openAgentFolder(path.join(lab.root, 'simulated'))
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
