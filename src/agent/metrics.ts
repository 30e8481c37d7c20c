/** Current use of the machine: GPUs from the driver; CPUs, memory and disk from the kernel. */
import fs from 'node:fs'
import type { HostMetrics } from '../contract/agent.ts'
import type { GpuSnapshot } from './gpu-source.ts'
import { freeDiskGb, readMemory } from './hardware.ts'

const GB_BYTES = 1_073_741_824

/** CPU use is measured since the last call; null on the first. */
export function makeMeter(folder: string, statFile = '/proc/stat'): (snapshot: GpuSnapshot) => HostMetrics {
  let last: CpuTimes | undefined
  return (snapshot) => {
    const now = readCpuTimes(statFile)
    const cpuPercent = last === undefined || now === undefined ? null : percentBetween(last, now)
    last = now
    const { totalBytes, availableBytes } = readMemory()
    return {
      type: 'metrics',
      gpus: snapshot.gpus.map(({ use }, index) => ({ index, ...use })),
      cpuPercent,
      memoryUsedGb: (totalBytes - availableBytes) / GB_BYTES,
      diskFreeGb: freeDiskGb(folder),
    }
  }
}

interface CpuTimes {
  readonly busy: number
  readonly all: number
}

/** `cpu  user nice system idle iowait irq softirq steal guest …`; user already includes guest. */
function readCpuTimes(statFile: string): CpuTimes | undefined {
  try {
    const [first = ''] = fs.readFileSync(statFile, 'utf8').split('\n')
    const times = first.trim().split(/\s+/).slice(1, 9).map(Number)
    if (times.length < 4 || times.some((one) => Number.isNaN(one))) return undefined
    const all = times.reduce((sum, one) => sum + one, 0)
    return { all, busy: all - (times[3] ?? 0) - (times[4] ?? 0) }
  } catch {
    return undefined
  }
}

function percentBetween(from: CpuTimes, to: CpuTimes): number | null {
  const all = to.all - from.all
  return all <= 0 ? null : Math.min(Math.max(((to.busy - from.busy) / all) * 100, 0), 100)
}
