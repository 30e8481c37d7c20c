/** From what `nvidia-smi -q -x` printed on a machine with a real H200 to what is put on sale, sick ones told apart. */
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hostOffer } from '../contract/agent.ts'
import { openAgentFolder, type AgentFolder } from './folder.ts'
import { xidsInLog } from './gpu-health.ts'
import { parseSimulated, realGpus, simulatedGpus } from './gpu-source.ts'
import type { AgentTerms } from './identity.ts'
import { listGpus, readListing } from './nvidia-smi.ts'
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
/** Of the machine on which the fixture was made. */
const hardware = {
  cpuModel: 'Intel(R) Xeon(R) Processor',
  cpuCores: 16,
  virtualCores: 16,
  ramGb: 125.8,
  storageGb: 63.9,
}
const UUID = 'GPU-00000000-0000-4000-8000-000000000000'

let h200: string
let root: string
let folders = 0

beforeAll(async () => {
  h200 = await readFile('test/fixtures/nvidia-smi-h200.xml', 'utf8')
  root = await mkdtemp(path.join(os.tmpdir(), 'berth-gpu-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

/** The fixture with some of its values replaced. */
function altered(...changes: ReadonlyArray<readonly [element: string, text: string]>): string {
  return changes.reduce((text, [element, value]) => {
    const pattern = new RegExp(`<${element}>[^<]*</${element}>`)
    expect(text).toMatch(pattern)
    return text.replace(pattern, `<${element}>${value}</${element}>`)
  }, h200)
}

/** So many of the fixture's GPU, each with a uuid and an address of its own. */
function repeated(numbers: readonly number[]): string {
  const start = h200.indexOf('<gpu id=')
  const end = h200.indexOf('</gpu>') + '</gpu>'.length
  const gpus = numbers.map((number) =>
    h200
      .slice(start, end)
      .replaceAll(UUID, uuid(number))
      .replaceAll('00000000:00:06.0', `00000000:0${number}:00.0`)
      .replace('<minor_number>0<', `<minor_number>${number}<`),
  )
  return h200.slice(0, start) + gpus.join('\n') + h200.slice(end)
}

function uuid(number: number): string {
  return UUID.replace(/.$/, String(number))
}

/** An nvidia-smi that prints what its file says, and a folder that remembers. */
async function station(text: string) {
  folders += 1
  const dir = path.join(root, `agent-${folders}`)
  const folder: AgentFolder = openAgentFolder(dir)
  const program = path.join(dir, 'nvidia-smi')
  const printed = path.join(dir, 'printed.xml')
  const kernelLog = path.join(dir, 'kmsg')
  await writeFile(program, `#!/bin/sh\ncat ${printed}\ntest ! -e ${dir}/fails\n`)
  await chmod(program, 0o755)
  await writeFile(kernelLog, '')
  const print = (next: string): Promise<void> => writeFile(printed, next)
  await print(text)
  const open = () => realGpus({ program, folder, kernelLog })
  return { dir, folder, print, open, kernelLog }
}

describe('a real H200', () => {
  test('is listed as the fixture says', async () => {
    const { open } = await station(h200)
    const source = open()
    const sight = await source.look()
    source.close()
    const offer = makeOffer(terms, hardware, sight)
    expect(hostOffer.parse(offer)).toEqual(JSON.parse(await readFile('test/fixtures/h200-listing.json', 'utf8')))
    expect(sight.notes).toEqual([])
  })

  test('is well: a corrected error and a row that was remapped in time are wear, not sickness', () => {
    expect(h200).toContain('<dram_correctable>2</dram_correctable>')
    expect(h200).toContain('<remapped_row_corr>1</remapped_row_corr>')
    expect(readListing(h200).gpus).toMatchObject([{ ailments: [] }])
  })

  test('tells what it does', () => {
    expect(readListing(h200).gpus[0]).toMatchObject({
      gpu: { uuid: UUID, pciAddress: '00000000:00:06.0', minor: 0 },
      use: {
        utilizationPercent: 0,
        memoryUsedMib: 0,
        memoryTotalMib: 143_771,
        powerWatts: 119.48,
        temperatureCelsius: 36,
      },
    })
  })

  test('eight of them are eight, in their order', async () => {
    const { open } = await station(repeated([0, 1, 2, 3, 4, 5, 6, 7]))
    const source = open()
    const sight = await source.look()
    source.close()
    expect(sight.gpus.map(({ gpu }) => gpu.uuid)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map(uuid))
    expect(makeOffer(terms, hardware, sight)).toMatchObject({ gpusTotal: 8, gpusSick: [] })
  })
})

describe('a GPU is sick', () => {
  test.each([
    ['dram_uncorrectable', '1', '1 memory errors that could not be corrected'],
    ['sram_uncorrectable_parity', '3', '3 memory errors that could not be corrected'],
    ['sram_threshold_exceeded', 'Yes', 'too many of its SRAM cells have failed'],
    ['unrepairable_memory', 'Yes', 'memory that cannot be repaired'],
    ['channel_repair_pending', 'Yes', 'repair of a memory channel waits'],
    ['pending_retirement', 'Yes', 'wait to be retired by a reset'],
    ['remapped_row_pending', 'Yes', 'wait to be remapped by a reset'],
    ['remapped_row_failure', 'Yes', 'could not be remapped'],
    ['gpu_recovery_action', 'Reset', 'its driver asks for: Reset'],
    ['gpu_temp', 'ERR!', 'its gpu_temp reads "ERR!"'],
    ['gpu_util', 'GPU is lost', 'its gpu_util reads "GPU is lost"'],
    ['average_power_draw', 'Unknown Error', 'reads "Unknown Error"'],
  ])('that says %s %s', (element, text, sentence) => {
    const [reading] = readListing(altered([element, text])).gpus
    expect(reading?.ailments).toHaveLength(1)
    expect(reading?.ailments[0]).toContain(sentence)
  })

  test('with the double bit errors of an older driver', () => {
    const old = '<volatile><double_bit><total>2</total></double_bit></volatile>'
    const text = h200.replace(/<volatile>.*?<\/volatile>/s, old)
    expect(readListing(text).gpus[0]?.ailments[0]).toContain('2 memory errors')
  })

  test('of which the kernel has written a fatal Xid; what a program does wrong is not the device’s fault', async () => {
    const { open, kernelLog } = await station(h200)
    const source = open()
    expect((await source.look()).gpus[0]?.ailments).toEqual([])
    await writeFile(kernelLog, '4,1,2,-;NVRM: Xid (PCI:0000:00:06): 31, pid=1, name=python, MMU Fault\n')
    expect((await source.look()).gpus[0]?.ailments).toEqual([])
    await writeFile(
      kernelLog,
      `${await readFile(kernelLog, 'utf8')}2,2,3,-;NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus.\n`,
    )
    const sight = await source.look()
    source.close()
    expect(sight.gpus[0]?.ailments).toEqual(['the driver has reported Xid 79: it has fallen off the bus'])
    expect(makeOffer(terms, hardware, sight)).toMatchObject({ gpusTotal: 1, gpusSick: [0] })
  })

  test('and only the one that the Xid names', () => {
    const found = xidsInLog('NVRM: Xid (PCI:0000:1a:00): 48, x\nNVRM: Xid (PCI:0000:1b:00.0): 13, y\n')
    expect([...found.keys()]).toEqual(['0000:1a:00'])
  })
})

describe('a GPU that is gone', () => {
  test('keeps its place, sick, also for the next agent; the others keep their indexes', async () => {
    const { open, print } = await station(repeated([0, 1, 2]))
    const first = open()
    await first.look()
    await print(repeated([0, 2]))
    const sight = await first.look()
    first.close()
    expect(sight.gpus.map(({ gpu }) => gpu.uuid)).toEqual([uuid(0), uuid(1), uuid(2)])
    expect(makeOffer(terms, hardware, sight)).toMatchObject({ gpusTotal: 3, gpusSick: [1] })
    expect(sight.notes).toEqual([`GPU 1 (${uuid(1)}) is not for sale: it is no longer listed by its driver.`])
    const next = open()
    expect(makeOffer(terms, hardware, await next.look())).toMatchObject({ gpusTotal: 3, gpusSick: [1] })
    await print(repeated([0, 1, 2]))
    expect(makeOffer(terms, hardware, await next.look())).toMatchObject({ gpusTotal: 3, gpusSick: [] })
    next.close()
  })

  test('as all are when the driver fails: they are sick, and the reason is told', async () => {
    const { open, print, dir } = await station(repeated([0, 1]))
    const source = open()
    await source.look()
    await print('Unable to determine the device handle for GPU0: Unknown Error\n')
    await writeFile(path.join(dir, 'fails'), '')
    const sight = await source.look()
    source.close()
    expect(makeOffer(terms, hardware, sight)).toMatchObject({ gpuModel: 'NVIDIA-H200', gpusTotal: 2, gpusSick: [0, 1] })
    expect(sight.notes[0]).toContain('Unable to determine the device handle')
  })

  test('and was replaced in its slot gives its place to the new one', async () => {
    const { open, print } = await station(repeated([0, 1]))
    const source = open()
    await source.look()
    await print(repeated([0, 1]).replace(uuid(0), uuid(9)))
    const sight = await source.look()
    source.close()
    expect(sight.gpus.map(({ gpu }) => gpu.uuid)).toEqual([uuid(9), uuid(1)])
    expect(makeOffer(terms, hardware, sight)).toMatchObject({ gpusTotal: 2, gpusSick: [] })
  })

  test('keeps what it said of itself in better days', async () => {
    const { open, print } = await station(h200)
    const source = open()
    await source.look()
    await print(altered(['product_name', 'ERR!'], ['total', 'ERR!']))
    const sight = await source.look()
    source.close()
    expect(makeOffer(terms, hardware, sight)).toMatchObject({
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
    const listing = readListing(altered(['product_name', name]))
    const offer = makeOffer(terms, hardware, { ...listing, simulated: false, notes: [] })
    expect(offer).toMatchObject({ ...columns, gpuModel: name.replaceAll(' ', '-') })
    expect(offer?.hardware).toMatchObject({ gpuInterface, gpuComputePower })
  })

  test('of another model than most are left out, by name', async () => {
    const { open } = await station(repeated([0, 1, 2]).replace('NVIDIA H200', 'NVIDIA T400'))
    const source = open()
    const sight = await source.look()
    source.close()
    expect(sight.gpus.map(({ gpu }) => gpu.uuid)).toEqual([uuid(1), uuid(2)])
    expect(sight.notes[0]).toContain(`NVIDIA T400 (${uuid(0)}) is not offered`)
  })
})

describe('a machine without GPUs', () => {
  test('has none, and says why', async () => {
    expect(await listGpus('/nowhere/nvidia-smi')).toEqual({
      gpus: [],
      reason: 'There is no /nowhere/nvidia-smi on this machine.',
    })
    const { open, print, dir } = await station('NVIDIA-SMI has failed because it could not talk to the driver.\n')
    await writeFile(path.join(dir, 'fails'), '')
    const source = open()
    const sight = await source.look()
    expect(sight.gpus).toEqual([])
    expect(sight.notes[0]).toContain('could not talk to the driver')
    expect(makeOffer(terms, hardware, sight)).toBeUndefined()
    await rm(path.join(dir, 'fails'))
    await print('not XML')
    expect((await source.look()).notes[0]).toContain('cannot be read: no XML')
    source.close()
  })

  test('offers simulated ones, and says so', async () => {
    const folder = openAgentFolder(path.join(root, 'simulated'))
    const source = simulatedGpus(parseSimulated('rtx4090:2'), folder)
    const offer = makeOffer(terms, hardware, await source.look())
    expect(hostOffer.parse(offer)).toMatchObject({
      gpuModel: 'NVIDIA-GeForce-RTX-4090',
      gpusTotal: 2,
      gpusSick: [],
      simulated: true,
      hardware: { gpuComputePower: 165, gpuInterface: 'PCIe 4.0 x16' },
    })
    folder.writeJson('sick.json', [1])
    const sick = await source.look()
    expect(makeOffer(terms, hardware, sick)).toMatchObject({ gpusTotal: 2, gpusSick: [1] })
    expect(sick.notes).toHaveLength(2)
    expect(sick.gpus[0]?.gpu.uuid).toMatch(/^GPU-sim-/)
  })

  test.each(['h100:0', 'h100:65', 'abacus:1', 'h100:', ':3', 'H100:1'])('does not simulate %s', (text) => {
    expect(() => parseSimulated(text)).toThrow('Write MODEL:COUNT')
  })
})
