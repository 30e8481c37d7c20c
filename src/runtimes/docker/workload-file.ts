/**
 * State of a container that the daemon does not keep: authorized SSH keys, its SSH host key, its restarts, and its exit
 * if that was observed. One private file per container, replaced atomically, so that neither a full disk nor a power cut leaves
 * half of one.
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
  /** The private key in OpenSSH format. */
  hostKey: z.string(),
  /** The container was created: if it is missing now, someone else removed it. */
  made: z.boolean(),
  /** Present once it exited while we were watching: it is not started again. */
  end: z.object({ failure: z.string(), message: z.string() }).optional(),
  restart: z.object({ policy: z.enum(['never', 'on-failure', 'always']), maxRetries: z.number() }).optional(),
  /** Restarts in a row because its program exited, and the time of the exit before the last one. */
  restarts: z.object({ count: z.number(), finishedAt: z.string() }).optional(),
  /** The start script has to run before it counts as running. */
  scriptDue: z.boolean().optional(),
  /** The run that was ended on request, by its start time: it has not failed. */
  halted: z.string().optional(),
  /** Reboots that it has had. */
  reboots: z.number().optional(),
  /** Its files as an image, and its volumes, since it got other GPUs. `isMoving`: the new container is not there yet. */
  disk: z
    .object({
      image: z.string(),
      volumes: z.array(z.object({ name: z.string(), path: z.string() })),
      isMoving: z.boolean(),
    })
    .optional(),
})
export type WorkloadFile = z.output<typeof workloadFile>
export type WorkloadEnd = NonNullable<WorkloadFile['end']>

const OWNER_ONLY_FOLDER = 0o700
/** Valid as a Docker name, and cannot escape the folder. */
const idForm = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,150}$/

export class WorkloadFiles {
  readonly #folder: string
  /** Serialized: a change that began before a removal must not bring the file back. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** undefined: no file. Throws `NeverStarts` if the file is damaged. */
  async read(id: string): Promise<WorkloadFile | undefined> {
    const text = await this.#text(id)
    if (text === undefined) return undefined
    try {
      return workloadFile.parse(JSON.parse(text))
    } catch {
      throw unreadable()
    }
  }

  /** Writes the file. The host key of an earlier start is kept, an observed exit is cleared. */
  keep(workload: Workload): Promise<WorkloadFile> {
    const { id, tag, spec } = workload
    return this.#inTurn(async () => {
      const before = await this.read(id)
      const same = before?.tag === tag ? before : undefined
      const hostKey = same?.hostKey ?? makeSshKeyPair(id).privateKey
      const file: WorkloadFile = {
        tag,
        sshKeys: spec?.sshKeys ?? [],
        hostKey,
        made: same?.made ?? false,
        ...(spec?.program === undefined ? {} : { restart: spec.program.restart }),
        ...(same?.restarts === undefined ? {} : { restarts: same.restarts }),
        ...(same?.scriptDue === undefined ? {} : { scriptDue: same.scriptDue }),
        ...(same?.halted === undefined ? {} : { halted: same.halted }),
        ...(same?.disk === undefined ? {} : { disk: same.disk }),
        reboots: same?.reboots ?? workload.reboots ?? 0,
      }
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

  keepRestarts(id: string, restarts: NonNullable<WorkloadFile['restarts']>): Promise<void> {
    return this.#change(id, { restarts })
  }

  keepScriptDue(id: string, scriptDue: boolean): Promise<void> {
    return this.#change(id, { scriptDue })
  }

  keepHalted(id: string, halted: string): Promise<void> {
    return this.#change(id, { halted, end: undefined })
  }

  keepReboots(id: string, reboots: number, halted: string): Promise<void> {
    return this.#change(id, { reboots, halted })
  }

  keepDisk(id: string, disk: NonNullable<WorkloadFile['disk']>): Promise<void> {
    return this.#change(id, { disk })
  }

  /** The disk has come from another host, with the host key that clients know. */
  async keepCopy(id: string, copy: Required<Pick<WorkloadFile, 'hostKey' | 'disk'>>): Promise<WorkloadFile> {
    await this.#change(id, { ...copy, made: true })
    const file = await this.read(id)
    if (file === undefined) throw new Error(`the files of ${id} are gone`)
    return file
  }

  remove(id: string): Promise<void> {
    return this.#inTurn(() => rm(this.#pathOf(id), { force: true }))
  }

  /** Does nothing if the file is gone. */
  #change(id: string, change: { [Key in keyof WorkloadFile]?: WorkloadFile[Key] | undefined }): Promise<void> {
    return this.#inTurn(async () => {
      const before = await this.read(id)
      if (before !== undefined) await this.#write(id, { ...before, ...change } as WorkloadFile)
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
      // The disk has lost it. Other errors, such as too many open files, are temporary.
      if (code === 'EIO' || code === 'EISDIR' || code === 'EBADMSG') throw unreadable()
      throw error
    }
  }

  async #write(id: string, value: WorkloadFile): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: OWNER_ONLY_FOLDER })
    await writeDurably(this.#pathOf(id), JSON.stringify(value))
  }

  #pathOf(id: string): string {
    if (!idForm.test(id)) throw new Error(`${JSON.stringify(id)} is not a valid workload id`)
    return path.join(this.#folder, `${id}.json`)
  }
}

function unreadable(): NeverStarts {
  return new NeverStarts('unreadable', 'The files of this container on the host are damaged.')
}
