/**
 * The fatal faults of this machine's GPUs, as the kernel log has them. A fault lasts until its GPU has been reset and
 * tested, which happens once between two boots, or the machine has booted again. The file `gpu-faults.json` in the agent's folder keeps them over a restart of
 * the agent, with the position in the log: a fault that was repaired does not come back when the log is read again.
 */
import fs from 'node:fs'
import { z } from 'zod'
import { systemClock } from '../base/instant.ts'
import type { AgentFolder } from './folder.ts'
import { xidsInLog, type Xid } from './gpu-health.ts'
import { openKernelLog, type KernelLog } from './kernel-log.ts'

const faultList = z
  .array(z.object({ address: z.string(), at: z.number(), sentence: z.string() }))
  // More than the GPUs of any machine.
  .max(256)
const storedFaults = z.object({
  boot: z.string(),
  sequence: z.number(),
  faults: faultList,
  resets: z.array(z.string()).max(256).default([]),
})

/** `at` is in milliseconds since 1970. */
export type AddressFault = z.output<typeof faultList>[number]

const FILE = 'gpu-faults.json'
const BOOT_FILE = '/proc/sys/kernel/random/boot_id'

export class GpuFaults {
  readonly #log: KernelLog
  readonly #folder: AgentFolder | undefined
  readonly #boot: string
  #sequence = -1
  #faults: readonly AddressFault[] = []
  /** The addresses of GPUs that were reset since the boot. */
  #resets: readonly string[] = []
  /** Xids that are faults if the driver asks for a recovery action. */
  #suspects: readonly AddressFault[] = []
  /** Everything new in the log is later than the last look at it. The clock of the log drifts; this bounds the error. */
  #lookedAt = 0

  constructor(folder: AgentFolder | undefined, kernelLog?: string, boot = fs.readFileSync(BOOT_FILE, 'utf8').trim()) {
    this.#log = openKernelLog(kernelLog)
    this.#folder = folder
    this.#boot = boot
    const stored = folder?.readJson(FILE, storedFaults)
    if (stored?.boot !== boot) return
    this.#sequence = stored.sequence
    this.#faults = stored.faults
    this.#resets = stored.resets
  }

  /** Reads new records of the log. True: they contain a new fault. */
  look(): boolean {
    const now = systemClock.now()
    const xids = xidsInLog(this.#log.read()).filter(({ sequence }) => sequence > this.#sequence)
    const timed = xids.map((xid) => ({ xid, at: Math.max(this.#lookedAt, Math.min(now, wallTimeOf(xid, now))) }))
    this.#lookedAt = now
    if (timed.length === 0) return false
    this.#sequence = Math.max(...xids.map(({ sequence }) => sequence))
    const faultOf = ({ xid: { address, sentence }, at }: (typeof timed)[number]) => ({ address, sentence, at })
    this.#suspects = [...this.#suspects, ...timed.filter(({ xid }) => xid.needsAction).map(faultOf)].slice(-64)
    return this.#add(timed.filter(({ xid }) => !xid.needsAction).map(faultOf))
  }

  /** The driver asks for a recovery action of the GPUs at `addresses`, and of no other. */
  confirm(addresses: ReadonlySet<string>): void {
    this.#add(this.#suspects.filter(({ address }) => addresses.has(address)))
    this.#suspects = []
  }

  at(address: string): AddressFault | undefined {
    return this.#faults.find((fault) => fault.address === address)
  }

  clear(address: string): void {
    this.#faults = this.#faults.filter((fault) => fault.address !== address)
    this.#save()
  }

  wasReset(address: string): boolean {
    return this.#resets.includes(address)
  }

  noteReset(address: string): void {
    this.#resets = [...this.#resets, address].slice(-256)
    this.#save()
  }

  close(): void {
    this.#log.close()
  }

  /** The first fault of a GPU counts. */
  #add(faults: readonly AddressFault[]): boolean {
    const before = this.#faults.length
    for (const fault of faults) {
      if (this.at(fault.address) === undefined) this.#faults = [...this.#faults, fault]
    }
    this.#save()
    return this.#faults.length > before
  }

  #save(): void {
    const [boot, sequence, faults, resets] = [this.#boot, this.#sequence, this.#faults, this.#resets]
    this.#folder?.writeJson(FILE, { boot, sequence, faults, resets })
  }
}

function wallTimeOf({ microseconds }: Xid, now: number): number {
  const sinceBoot = Number(process.hrtime.bigint() / 1_000n)
  return Math.round(now - Math.max(0, sinceBoot - microseconds) / 1_000)
}
