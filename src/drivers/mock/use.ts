/**
 * Made-up use of simulated machines: stretches of training with pauses between them. A function of the machine and the
 * instant, so that it needs no storage, and history is the same whenever it is read.
 */
import { HOUR_MS, MINUTE_MS, type Instant } from '../../base/instant.ts'
import type { Values } from '../../domain/sample.ts'
import type { RentalSpec } from '../../domain/rental.ts'

const JOB_MS = 25 * MINUTE_MS
const WAVE_MS = 90_000
const JITTER_MS = 10_000
/** The part of the time in which a job runs. */
const BUSY_PART = 0.7
const MIB_PER_GB = 953.674
const GPU_RAM_MIB: Readonly<Record<string, number>> = { h100: 81_559, h200: 143_771, b200: 183_359 }
const OTHER_GPU_RAM_MIB = 24_564
const GPU_WATTS: Readonly<Record<string, number>> = { h100: 700, h200: 700, b200: 1_000 }
const OTHER_GPU_WATTS = 450

function gpuRamMib({ gpuType }: Pick<RentalSpec, 'gpuType'>): number {
  return GPU_RAM_MIB[gpuType ?? ''] ?? OTHER_GPU_RAM_MIB
}

export function simulateUse(tag: string, spec: RentalSpec, node: number, at: Instant): Values {
  const machine = `${tag} ${node}`
  const isBusy = noise(machine, 'job', Math.floor(at / JOB_MS)) < BUSY_PART
  const jitter = (what: string): number => noise(machine, what, Math.floor(at / JITTER_MS))
  const wave = (1 + Math.sin((2 * Math.PI * at) / WAVE_MS)) / 2
  const { ramGb, storageGb } = spec.resources
  const hours = (at / HOUR_MS) % 200
  const network = isBusy && jitter('burst') < 0.2 ? 40e6 : 60e3
  return {
    machine: [
      isBusy ? 25 + 20 * wave + 15 * jitter('cpu') : 1 + 2 * jitter('cpu'),
      ramGb * MIB_PER_GB * (isBusy ? 0.45 + 0.1 * jitter('ram') : 0.12),
      storageGb * MIB_PER_GB * (0.15 + 0.002 * hours),
      network * (0.5 + jitter('rx')),
      network * 0.2 * (0.5 + jitter('tx')),
    ],
    gpus: (spec.nodes[node]?.gpuIndexes ?? []).map((index) => {
      const gpuNoise = noise(machine, `gpu ${index}`, Math.floor(at / JITTER_MS))
      const utilization = isBusy ? 78 + 10 * wave + 12 * gpuNoise : gpuNoise < 0.9 ? 0 : 2
      const watts = GPU_WATTS[spec.gpuType ?? ''] ?? OTHER_GPU_WATTS
      const values = [
        Math.round(utilization),
        Math.round(gpuRamMib(spec) * (isBusy ? 0.72 + 0.05 * gpuNoise : 0.04)),
        Math.round(32 + utilization * 0.38 + 3 * gpuNoise),
        Math.round(watts * (0.11 + (utilization / 100) * 0.75 + 0.03 * gpuNoise)),
      ]
      return { index, values }
    }),
  }
}

/** Values from 0 to 1, evenly spread: FNV-1a and a final mix, since one chart needs thousands. */
function noise(seed: string, what: string, step: number): number {
  let hash = 0x811c9dc5
  for (const text of [seed, what, String(step)]) {
    for (let n = 0; n < text.length; n += 1) hash = Math.imul(hash ^ text.charCodeAt(n), 0x01000193)
    hash = Math.imul(hash ^ 0x7c, 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b)
  return ((hash ^ (hash >>> 15)) >>> 0) / 4_294_967_296
}
