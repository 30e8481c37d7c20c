/** The kernel's log, read on from where the last look ended. Where it may not be read there is nothing, and no error. */
import fs from 'node:fs'

export interface KernelLog {
  /** What was written since the last look; at first all that the kernel still has. */
  read(): string
  close(): void
}

/** One record is at most this long. */
const RECORD_BYTES = 8_192
/** More than any kernel keeps. */
const MAX_RECORDS = 100_000

export function openKernelLog(file = '/dev/kmsg'): KernelLog {
  let opened: number | undefined
  try {
    opened = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
  } catch {
    // A container or an ordinary user: nvidia-smi's own counters are left.
  }
  const buffer = Buffer.alloc(RECORD_BYTES)
  return {
    read: () => {
      if (opened === undefined) return ''
      let text = ''
      for (let record = 0; record < MAX_RECORDS; record += 1) {
        const bytes = readRecord(opened, buffer)
        if (bytes === 'overwritten') continue
        if (bytes === 0) break
        text += buffer.toString('utf8', 0, bytes)
      }
      return text
    },
    close: () => {
      if (opened !== undefined) fs.closeSync(opened)
      opened = undefined
    },
  }
}

function readRecord(file: number, buffer: Buffer): number | 'overwritten' {
  try {
    return fs.readSync(file, buffer)
  } catch (error) {
    // EPIPE: the next record was overwritten while nobody read; the one after it can be read. Else: nothing new.
    return error instanceof Error && 'code' in error && error.code === 'EPIPE' ? 'overwritten' : 0
  }
}
