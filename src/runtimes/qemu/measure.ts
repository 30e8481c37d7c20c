/**
 * The usage of virtual machines is read from their processes: the time of all threads, the memory that is not swapped
 * out, and the blocks of their disk. The network of a machine is sockets of its process, which the kernel does not
 * count.
 */
import fs from 'node:fs/promises'
import type { Measured } from '../runtime.ts'
import { findProcesses, machineFiles, unlessGone } from './machine-files.ts'

const MIB = 1_048_576
const KIB_PER_MIB = 1_024
const BLOCK_BYTES = 512
/** USER_HZ, the same on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100

export async function measureMachines(root: string): Promise<Measured[]> {
  const measured: Measured[] = []
  for (const [id, [pid]] of await findProcesses(root)) {
    const one = pid === undefined ? undefined : await measureMachine(root, id, pid)
    if (one !== undefined) measured.push(one)
  }
  return measured
}

/** undefined: the machine has ended in the meantime. */
async function measureMachine(root: string, id: string, pid: number): Promise<Measured | undefined> {
  const read = (name: string): Promise<string> => fs.readFile(`/proc/${pid}/${name}`, 'utf8').catch(unlessGone(''))
  const [stat, status, commandLine] = await Promise.all([read('stat'), read('status'), read('cmdline')])
  if (stat === '' || commandLine === '') return undefined
  const args = commandLine.split('\0')
  const valueOf = (option: string): string => args[args.indexOf(option) + 1] ?? ''
  const disk = await fs.stat(machineFiles(root, id).overlay).catch(unlessGone(undefined))
  // The name in parentheses may contain spaces; user and system time are the 12th and 13th field after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const residentKib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN)
  return {
    id,
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
    cpus: Number.parseInt(valueOf('-smp'), 10) || 1,
    memoryUsedMib: Number.isNaN(residentKib) ? null : residentKib / KIB_PER_MIB,
    memoryTotalMib: Number.parseInt(valueOf('-m'), 10) || null,
    diskUsedMib: disk === undefined ? null : (disk.blocks * BLOCK_BYTES) / MIB,
    networkRxBytes: null,
    networkTxBytes: null,
    hasProgram: false,
  }
}
