/**
 * What is written down of each volume, before it is acted on: one small file each. The state says how far the acting may
 * have come, so a crash between any two steps is finished by the next start or the next call.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { removeDurably, writeDurably } from '../durable-file.ts'

/** How many volumes one server holds; each that is in use takes a loop device, a mount and an export. */
export const MAX_VOLUMES = 4_096
export const MAX_EXPORT_ID = 65_534

const volumeRecord = z.object({
  /** Part of every file handle that clients keep, so it stays with the volume. */
  exportId: z.int().min(1).max(MAX_EXPORT_ID),
  sizeGb: z.int().min(1),
  clients: z.array(z.string()),
  /** `making`: its file may be missing. `going`: it was asked to go, and is finished off. */
  state: z.enum(['making', 'ready', 'going']),
})
export type VolumeRecord = z.infer<typeof volumeRecord>

const SUFFIX = '.json'
const idPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/

/** An id becomes part of paths and of a configuration, so what could be anything else there is refused. */
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
    // To go on without it would make its volume look deleted.
    throw new Error(`The record ${file} cannot be read`, { cause: error })
  }
}
