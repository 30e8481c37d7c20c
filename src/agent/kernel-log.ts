/** Reads the kernel log incrementally. Without permission to read it the log is empty; that is not an error. */
import fs from 'node:fs'

export interface KernelLog {
  /** Everything since the last read; the first time, all that the kernel still has. */
  read(): string
  close(): void
}

/** The longest record. */
const RECORD_BYTES = 8_192
/** More than any kernel keeps. */
const MAX_RECORDS = 100_000

export function openKernelLog(file = '/dev/kmsg'): KernelLog {
  let opened: number | undefined
  try {
    opened = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
  } catch {
    // In a container or without root only the counters of nvidia-smi are available.
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
    // EPIPE: the next record was overwritten; the one after it can be read. Any other error: nothing new.
    return error instanceof Error && 'code' in error && error.code === 'EPIPE' ? 'overwritten' : 0
  }
}
