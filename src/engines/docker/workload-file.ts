/**
 * What the agent keeps of each container beside the daemon: who may log in, the host key by which SSH clients know it
 * again, and how it ended if that was seen. One file each, for its owner alone, written whole and then renamed.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import ssh2 from 'ssh2'
import { z } from 'zod'
import type { Workload } from '../../contract/agent.ts'

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

const OWNER_ONLY = 0o600
const OWNER_ONLY_FOLDER = 0o700
/** Also a name for Docker, and never a way out of the folder. */
const idForm = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,150}$/

export class WorkloadFiles {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** undefined: nothing is kept of it. */
  async read(id: string): Promise<WorkloadFile | undefined> {
    try {
      return workloadFile.parse(JSON.parse(await readFile(this.#pathOf(id), 'utf8')))
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
      throw error
    }
  }

  /** Keeps what it needs; the host key stays that of an earlier start. An end that was seen is forgotten. */
  async keep(workload: Workload): Promise<WorkloadFile> {
    const { id, tag, spec } = workload
    const before = await this.read(id)
    const same = before?.tag === tag ? before : undefined
    const hostKey = same?.hostKey ?? ssh2.utils.generateKeyPairSync('ed25519').private
    const file = { tag, sshKeys: spec?.sshKeys ?? [], hostKey, made: same?.made ?? false }
    await this.#write(id, file)
    return file
  }

  async keepMade(id: string): Promise<void> {
    const before = await this.read(id)
    if (before !== undefined) await this.#write(id, { ...before, made: true })
  }

  async keepEnd(id: string, end: WorkloadEnd): Promise<void> {
    const before = await this.read(id)
    if (before !== undefined) await this.#write(id, { ...before, end })
  }

  async remove(id: string): Promise<void> {
    await rm(this.#pathOf(id), { force: true })
  }

  async #write(id: string, value: WorkloadFile): Promise<void> {
    const target = this.#pathOf(id)
    await mkdir(this.#folder, { recursive: true, mode: OWNER_ONLY_FOLDER })
    await writeFile(`${target}.new`, JSON.stringify(value), { mode: OWNER_ONLY })
    await rename(`${target}.new`, target)
  }

  #pathOf(id: string): string {
    if (!idForm.test(id)) throw new Error(`${JSON.stringify(id)} cannot be the id of a container`)
    return path.join(this.#folder, `${id}.json`)
  }
}
