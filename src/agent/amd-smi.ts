/**
 * The AMD GPUs of this machine, as `amd-smi` lists them. The owner is told which there are, and they are not offered: they
 * will be when Berth was tried on one. ROCm 6 prints a list, later versions an object with that list.
 */
import { execFile } from 'node:child_process'
import { z } from 'zod'

const COMMAND = ['static', '--asic', '--bus', '--vram', '--driver', '--json']
const TIMEOUT_MS = 30_000
const MAX_OUTPUT_BYTES = 8 * 1_048_576
const MAX_GPUS = 64
/** PCI identifiers are hexadecimal. */
const AMD = 0x1002

const text = z.string().max(200).catch('')
/** A size that is not known is a text, such as `N/A`. */
const size = z.object({ value: z.number(), unit: z.string() }).nullable().catch(null)
const gpu = z.object({
  asic: z.object({ market_name: text, vendor_id: text }),
  bus: z.object({ bdf: text }),
  vram: z.object({ size }).catch({ size: null }),
  driver: z.object({ name: text, version: text }).catch({ name: '', version: '' }),
})
const gpus = z.array(gpu)
const output = z.union([gpus, z.object({ gpu_data: gpus }).transform(({ gpu_data }) => gpu_data)])

/** A sentence for each AMD GPU, or why they cannot be listed. Nothing where `amd-smi` is not installed. */
export function amdNotes(program = 'amd-smi'): Promise<readonly string[]> {
  const options = { timeout: TIMEOUT_MS, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT_BYTES, encoding: 'utf8' } as const
  return new Promise((resolve) => {
    execFile(program, COMMAND, options, (error, printed) => {
      if (error?.code === 'ENOENT') resolve([])
      else if (error !== null) resolve([`AMD GPUs are not listed: ${program} failed.`])
      else resolve(readAmdNotes(printed))
    })
  })
}

function readAmdNotes(printed: string): readonly string[] {
  const parsed = output.safeParse(parseJson(printed))
  if (!parsed.success) return ['AMD GPUs are not listed: the output of amd-smi is not known to this version.']
  return parsed.data
    .filter(({ asic }) => Number.parseInt(asic.vendor_id, 16) === AMD)
    .slice(0, MAX_GPUS)
    .map(({ asic, bus, vram, driver }) => {
      const memory = vram.size === null ? [] : [`${vram.size.value} ${vram.size.unit}`]
      const facts = [...memory, bus.bdf, `${driver.name} ${driver.version}`.trim()].filter((fact) => fact !== '')
      return `${asic.market_name} (${facts.join(', ')}) is not offered: Berth has not been tried on GPUs of AMD yet.`
    })
}

/** undefined: the text is not JSON. */
function parseJson(printed: string): unknown {
  try {
    return JSON.parse(printed)
  } catch {
    return undefined
  }
}
