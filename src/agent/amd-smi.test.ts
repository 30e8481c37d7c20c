/** From the output of `amd-smi static` to what the owner of a machine is told. The output is in the format of its versions. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { amdNotes } from './amd-smi.ts'

const mi300x = {
  gpu: 0,
  asic: {
    market_name: 'AMD Instinct MI300X',
    vendor_id: '0x1002',
    vendor_name: 'Advanced Micro Devices Inc. [AMD/ATI]',
    device_id: '0x74a1',
  },
  bus: { bdf: '0000:0c:00.0', max_pcie_width: 16, slot_type: 'OAM' },
  vram: { type: 'HBM3', vendor: 'HYNIX', size: { value: 196_592, unit: 'MB' } },
  driver: { name: 'amdgpu', version: '6.10.5' },
}
const radeon = {
  ...mi300x,
  gpu: 1,
  asic: { market_name: 'AMD Radeon 780M', vendor_id: '0x1002' },
  bus: { bdf: '0000:c4:00.0' },
  vram: { type: 'N/A', size: 'N/A' },
}
const of = (facts: string): string => `${facts} is not offered: Berth has not been tried on GPUs of AMD yet.`
const notes = [
  of('AMD Instinct MI300X (196592 MB, 0000:0c:00.0, amdgpu 6.10.5)'),
  of('AMD Radeon 780M (0000:c4:00.0, amdgpu 6.10.5)'),
]

describe('promise 47: GPUs of AMD are named and not offered', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-amd-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  /** A program that prints this, if it is asked for what we ask for. */
  async function amdSmi(output: string, code = 0): Promise<string> {
    const program = path.join(folder, `amd-smi-${code}`)
    await writeFile(`${program}.json`, output)
    const words = 'static --asic --bus --vram --driver --json'
    await writeFile(program, `#!/bin/sh\n[ "$*" = "${words}" ] || exit 2\ncat "$0.json"\nexit ${code}\n`)
    await chmod(program, 0o755)
    return program
  }

  test.each([
    ['ROCm 6', [mi300x, radeon]],
    ['ROCm 7', { gpu_data: [mi300x, radeon] }],
  ])('as %s prints them', async (_, output) => {
    expect(await amdNotes(await amdSmi(JSON.stringify(output)))).toEqual(notes)
  })

  test('and what cannot be listed is said, but nothing of machines without the program', async () => {
    expect(await amdNotes(path.join(folder, 'missing'))).toEqual([])
    const unknown = 'AMD GPUs are not listed: the output of amd-smi is not known to this version.'
    expect(await amdNotes(await amdSmi('GPU: 0'))).toEqual([unknown])
    expect(await amdNotes(await amdSmi('{}'))).toEqual([unknown])
    expect(await amdNotes(await amdSmi('[]', 1))).toEqual([expect.stringMatching(/amd-smi-1 failed\.$/)])
    expect(await amdNotes(await amdSmi('[]'))).toEqual([])
    const foreign = { ...mi300x, asic: { market_name: 'Other', vendor_id: '0x8086' } }
    expect(await amdNotes(await amdSmi(JSON.stringify([foreign])))).toEqual([])
  })
})
