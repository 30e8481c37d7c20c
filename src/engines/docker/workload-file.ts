/**
 * What the agent keeps of each container beside the daemon: who may log in, the host key by which SSH clients know it
 * again, and how it ended if that was seen. One file each, for its owner alone, written whole, brought to the disk and
 * then renamed, so that neither a full disk nor a power cut leaves half of one.
 */
import { mkdir, readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { makeSshKeyPair } from '../../base/ssh-key-pair.ts'
import type { Workload } from '../../contract/agent.ts'
import { writeDurably } from '../durable-file.ts'
import { NeverStarts } from '../runtime.ts'

const workloadFile = z.object({
  tag: z.string(),
  sshKeys: z.array(z.string()),
  /** Private, in OpenSSH's form. */
  hostKey: z.string(),
  /** Its container was made once: where it is missing now, somebody else took it away. */
  made: z.boolean(),
  /** Present once it has ended before our eyes: it is not started again then. */
  end: z.object({ failure: z.string(), message: z.string() }).optional(),
})
export type WorkloadFile = z.output<typeof workloadFile>
export type WorkloadEnd = NonNullable<WorkloadFile['end']>

const OWNER_ONLY_FOLDER = 0o700
/** Also a name for Docker, and never a way out of the folder. */
const idForm = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,150}$/

export class WorkloadFiles {
  readonly #folder: string
  /** Changes come one after the other: one that was begun before a removal must not bring the file back. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** undefined: nothing is kept of it. Throws `NeverStarts` where what is kept makes no sense. */
  async read(id: string): Promise<WorkloadFile | undefined> {
    const text = await this.#text(id)
    if (text === undefined) return undefined
    try {
      return workloadFile.parse(JSON.parse(text))
    } catch {
      throw unreadable()
    }
  }

  /** Keeps what it needs; the host key stays that of an earlier start. An end that was seen is forgotten. */
  keep(workload: Workload): Promise<WorkloadFile> {
    const { id, tag, spec } = workload
    return this.#inTurn(async () => {
      const before = await this.read(id)
      const same = before?.tag === tag ? before : undefined
      const hostKey = same?.hostKey ?? makeSshKeyPair(id).privateKey
      const file = { tag, sshKeys: spec?.sshKeys ?? [], hostKey, made: same?.made ?? false }
      await this.#write(id, file)
      return file
    })
  }

  keepMade(id: string): Promise<void> {
    return this.#change(id, { made: true })
  }

  keepEnd(id: string, end: WorkloadEnd): Promise<void> {
    return this.#change(id, { end })
  }

  remove(id: string): Promise<void> {
    return this.#inTurn(() => rm(this.#pathOf(id), { force: true }))
  }

  /** Nothing, where nothing is kept any more. */
  #change(id: string, change: Partial<WorkloadFile>): Promise<void> {
    return this.#inTurn(async () => {
      const before = await this.read(id)
      if (before !== undefined) await this.#write(id, { ...before, ...change })
    })
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => {})
    return done
  }

  async #text(id: string): Promise<string | undefined> {
    try {
      return await readFile(this.#pathOf(id), 'utf8')
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      if (code === 'ENOENT') return undefined
      // The disk has lost it. What else goes wrong, such as too many open files, passes.
      if (code === 'EIO' || code === 'EISDIR' || code === 'EBADMSG') throw unreadable()
      throw error
    }
  }

  async #write(id: string, value: WorkloadFile): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: OWNER_ONLY_FOLDER })
    await writeDurably(this.#pathOf(id), JSON.stringify(value))
  }

  #pathOf(id: string): string {
    if (!idForm.test(id)) throw new Error(`${JSON.stringify(id)} cannot be the id of a container`)
    return path.join(this.#folder, `${id}.json`)
  }
}

function unreadable(): NeverStarts {
  return new NeverStarts('unreadable', 'What this host keeps of it cannot be read any more.')
}
