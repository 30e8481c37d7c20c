/**
 * One record file per volume, written before each action. The state tells how far the action may have got, so that the
 * next start or call finishes it after a crash.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { removeDurably, writeDurably } from '../durable-file.ts'

/** Volumes per server; each one in use takes a loop device, a mount and an export. */
export const MAX_VOLUMES = 4_096
export const MAX_EXPORT_ID = 65_534

const volumeRecord = z.object({
  /** The id is part of clients' file handles, so it must never change. */
  exportId: z.int().min(1).max(MAX_EXPORT_ID),
  sizeGb: z.int().min(1),
  clients: z.array(z.string()),
  /** `making`: the file may be missing. `going`: being destroyed. */
  state: z.enum(['making', 'ready', 'going']),
})
export type VolumeRecord = z.infer<typeof volumeRecord>

const SUFFIX = '.json'
const idPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/

/** Ids become part of paths and of a configuration. */
export function assertVolumeId(id: string): void {
  if (!idPattern.test(id)) throw new Error(`“${id.slice(0, 100)}” is not a valid volume id`)
}

export class VolumeRecords {
  readonly #folder: string
  readonly #records: Map<string, VolumeRecord>

  private constructor(folder: string, records: Map<string, VolumeRecord>) {
    this.#folder = folder
    this.#records = records
  }

  static async open(folder: string): Promise<VolumeRecords> {
    await fs.mkdir(folder, { recursive: true, mode: 0o700 })
    const records = new Map<string, VolumeRecord>()
    for (const name of (await fs.readdir(folder)).toSorted()) {
      if (!name.endsWith(SUFFIX)) continue
      const id = name.slice(0, -SUFFIX.length)
      assertVolumeId(id)
      records.set(id, await readRecord(path.join(folder, name)))
    }
    return new VolumeRecords(folder, records)
  }

  get(id: string): VolumeRecord | undefined {
    return this.#records.get(id)
  }

  all(): Array<[id: string, record: VolumeRecord]> {
    return [...this.#records]
  }

  async write(id: string, record: VolumeRecord): Promise<void> {
    assertVolumeId(id)
    await writeDurably(path.join(this.#folder, `${id}${SUFFIX}`), `${JSON.stringify(record)}\n`)
    this.#records.set(id, record)
  }

  async remove(id: string): Promise<void> {
    assertVolumeId(id)
    await removeDurably(path.join(this.#folder, `${id}${SUFFIX}`))
    this.#records.delete(id)
  }
}

async function readRecord(file: string): Promise<VolumeRecord> {
  try {
    return volumeRecord.parse(JSON.parse(await fs.readFile(file, 'utf8')))
  } catch (error) {
    // Ignoring the file would make the volume look deleted.
    throw new Error(`The record ${file} cannot be read`, { cause: error })
  }
}
