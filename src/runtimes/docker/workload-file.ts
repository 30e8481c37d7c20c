/**
 * The state of a container that the Docker daemon does not store: authorized SSH keys, the SSH host key, restarts, and an
 * exit that we observed. Each container has one private file. It is replaced atomically, so that neither a full disk nor a
 * power failure leaves half of one.
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
  /** Whether the container was created. If it is missing then, someone else has removed it. */
  made: z.boolean(),
  /** Set when the container exited while we watched it. It is not started again. */
  end: z
    .object({
      failure: z.string(),
      message: z.string(),
      exitCode: z.number().optional(),
      endedAt: z.number().optional(),
    })
    .optional(),
  restart: z.object({ policy: z.enum(['never', 'on-failure', 'always']), maxRetries: z.number() }).optional(),
  /** The number of consecutive restarts after an exit of the program, and the time of the exit before the last restart. */
  restarts: z.object({ count: z.number(), finishedAt: z.string() }).optional(),
  /** The workload is a job: its program is never started again. */
  runsOnce: z.boolean().optional(),
  /** Whether the start script must still run before the container counts as running. */
  scriptDue: z.boolean().optional(),
  /** The start time of the run that was stopped on request. The end of that run is not a failure. */
  halted: z.string().optional(),
  /** The number of reboots so far. */
  reboots: z.number().optional(),
  /** The files of a container that got other GPUs, as an image, and its volumes. `isMoving`: its new container is not created yet. */
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
/** Such an id is valid as a Docker name and cannot escape the folder. */
const idForm = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,150}$/

export class WorkloadFiles {
  readonly #folder: string
  /** Changes run one after the other: a change that began before a removal must not bring the file back. */
  #lastChange: Promise<unknown> = Promise.resolve()

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

  /** Writes the file. It keeps the host key of an earlier start and clears an observed exit. */
  keep(workload: Workload): Promise<WorkloadFile> {
    const { id, tag, spec } = workload
    return this.#inTurn(async () => {
      const before = await this.read(id)
      const previous = before?.tag === tag ? before : undefined
      const hostKey = previous?.hostKey ?? makeSshKeyPair(id).privateKey
      const file: WorkloadFile = {
        tag,
        sshKeys: spec?.sshKeys ?? [],
        hostKey,
        made: previous?.made ?? false,
        ...(spec?.program === undefined ? {} : { restart: spec.program.restart }),
        ...(spec?.program?.runsOnce === true ? { runsOnce: true } : {}),
        ...(previous?.restarts === undefined ? {} : { restarts: previous.restarts }),
        ...(previous?.scriptDue === undefined ? {} : { scriptDue: previous.scriptDue }),
        ...(previous?.halted === undefined ? {} : { halted: previous.halted }),
        ...(previous?.disk === undefined ? {} : { disk: previous.disk }),
        reboots: previous?.reboots ?? workload.reboots ?? 0,
      }
      await this.#write(id, file)
      return file
    })
  }

  keepCreated(id: string): Promise<void> {
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

  /** Records that the disk was copied from another host, with the host key that clients know. */
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
    const result = this.#lastChange.then(work)
    this.#lastChange = result.catch(() => {})
    return result
  }

  async #text(id: string): Promise<string | undefined> {
    try {
      return await readFile(this.#pathOf(id), 'utf8')
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      if (code === 'ENOENT') return undefined
      // The file is lost. Other errors, such as too many open files, are temporary.
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
