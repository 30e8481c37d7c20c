/**
 * Tells the programs of a container when it will be interrupted: with the file `/run/berth/interruption`, which has the
 * time, and is not there as long as no interruption is announced. It is in a folder of the host that the container sees
 * read-only, so it can appear in any image, whatever runs there.
 */
import { chmod, mkdir, readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import type { Workload } from '../../contract/agent.ts'
import { writeDurably } from '../durable-file.ts'

const TARGET = '/run/berth'
const FILE = 'interruption'
/** Programs of the container run as any user. */
const READABLE_FOLDER = 0o755
const READABLE_FILE = 0o644

export function noticeMount(folder: string, id: string): object {
  return { Type: 'bind', Source: path.join(folder, id), Target: TARGET, ReadOnly: true }
}

/** Only containers that can be interrupted see such a folder. */
export function hasNotices({ spec }: Workload): boolean {
  return spec?.interruptible === true
}

export class EndNotices {
  readonly folder: string

  constructor(folder: string) {
    this.folder = folder
  }

  /** Writes or removes the file, and makes its folder. */
  async set({ id, endsAt }: Pick<Workload, 'id' | 'endsAt'>): Promise<void> {
    const folder = path.join(this.folder, id)
    await mkdir(folder, { recursive: true })
    await chmod(folder, READABLE_FOLDER)
    if (endsAt === undefined) await rm(this.#fileOf(id), { force: true })
    else await writeDurably(this.#fileOf(id), `${new Date(endsAt).toISOString()}\n`, READABLE_FILE)
  }

  /** undefined: no interruption is announced. */
  async read(id: string): Promise<number | undefined> {
    try {
      return Date.parse((await readFile(this.#fileOf(id), 'utf8')).trim())
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }

  async forget(id: string): Promise<void> {
    await rm(path.join(this.folder, id), { recursive: true, force: true })
  }

  #fileOf(id: string): string {
    return path.join(this.folder, id, FILE)
  }
}
