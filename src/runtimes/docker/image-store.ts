/**
 * Tracks the images that were pulled for customers, and removes each after its last container, so that unused images do
 * not fill the disk. The default image and images of the host's owner stay. The list is a file, since the daemon cannot
 * label images of others.
 */
import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { DockerRefused, type DockerClient } from './client.ts'
import { TAG_LABEL } from './container-order.ts'
import type { ImageName } from '../image-name.ts'
import { writeDurably } from '../durable-file.ts'

export interface ImageStoreOptions {
  readonly client: DockerClient
  readonly folder: string
  readonly defaultImage: string
  readonly onError: (what: string, error: unknown) => void
}

/** Names by image id. */
const pulledFile = z.record(z.string(), z.array(z.string()))

const FILE = 'images.list'
/** Beyond this the oldest are forgotten, and stay on the host. */
const MAX_IMAGES = 1_000

export class ImageStore {
  readonly #options: ImageStoreOptions
  /** Names that are being pulled: a copy that appears meanwhile is not the supplier's. */
  readonly #pulling = new Map<string, number>()
  /** Names with a container about to be created. */
  readonly #inUse = new Map<string, number>()
  #pulled: Map<string, string[]> | undefined
  #last: Promise<void> = Promise.resolve()

  constructor(options: ImageStoreOptions) {
    this.#options = options
  }

  /** Keeps the image while `work` creates a container from it. */
  async hold<T>(image: ImageName, work: () => Promise<T>): Promise<T> {
    return counting(this.#inUse, image.full, work)
  }

  /** Whether the supplier has put it there: not a customer's pull, nor the saved disk of a container, which has no name. */
  async isSuppliers(image: ImageName, signal: AbortSignal): Promise<boolean> {
    const local = await this.#options.client.image(image.full, signal)
    if (local === undefined || local.RepoTags.length === 0 || this.#pulling.has(image.full)) return false
    return !(await this.#load()).has(local.Id)
  }

  /** Pulls it with `pull`, and records it if it was not on the host before. Returns its size in bytes. */
  fetch(image: ImageName, pull: () => Promise<void>, signal: AbortSignal): Promise<number> {
    return counting(this.#pulling, image.full, () => this.#fetch(image, pull, signal))
  }

  async #fetch(image: ImageName, pull: () => Promise<void>, signal: AbortSignal): Promise<number> {
    const { client } = this.#options
    const before = await client.image(image.full, signal)
    await pull()
    const after = await client.image(image.full, signal)
    if (after === undefined) throw new Error(`${image.full} is missing after the pull`)
    await this.#inTurn(async () => {
      const pulled = await this.#load()
      const names = pulled.get(after.Id)
      if (before?.Id === after.Id && names === undefined) return
      if (names?.includes(image.full) === true) return
      pulled.set(after.Id, [...(names ?? []), image.full])
      await this.#save(pulled)
    })
    return after.Size
  }

  /** Removes images without a container of ours. One that cannot be removed now is tried again next time. */
  sweep(signal: AbortSignal): Promise<void> {
    return this.#inTurn(async () => {
      const { client, defaultImage } = this.#options
      const pulled = await this.#load()
      if (pulled.size === 0) return
      const usedIds = new Set((await client.containers(TAG_LABEL, signal)).map(({ ImageID }) => ImageID))
      usedIds.add((await client.image(defaultImage, signal))?.Id ?? '')
      let isChanged = false
      for (const [id, names] of pulled) {
        if (usedIds.has(id) || names.some((name) => this.#inUse.has(name))) continue
        if (!(await this.#remove(id, names, signal))) continue
        pulled.delete(id)
        isChanged = true
      }
      if (isChanged) await this.#save(pulled)
    }, signal)
  }

  /** Removes the names that customers used, if they still refer to this image: the owner's names keep it. */
  async #remove(id: string, names: readonly string[], signal: AbortSignal): Promise<boolean> {
    const { client } = this.#options
    try {
      for (const name of names) {
        if ((await client.image(name, signal))?.Id === id) await client.removeImage(name, signal)
      }
      // A name may have moved to a newer image, which leaves this one without any.
      const image = await client.image(id, signal)
      if (image !== undefined && image.RepoTags.length === 0) await client.removeImage(id, signal)
      return true
    } catch (error) {
      // Another container uses it.
      if (error instanceof DockerRefused && error.status === 409) return false
      throw error
    }
  }

  async #load(): Promise<Map<string, string[]>> {
    if (this.#pulled !== undefined) return this.#pulled
    const text = await readFile(this.#path, 'utf8').catch(() => '{}')
    this.#pulled = new Map(Object.entries(readPulled(text)))
    return this.#pulled
  }

  async #save(pulled: Map<string, string[]>): Promise<void> {
    for (const id of [...pulled.keys()].slice(0, Math.max(pulled.size - MAX_IMAGES, 0))) pulled.delete(id)
    await mkdir(this.#options.folder, { recursive: true, mode: 0o700 })
    await writeDurably(this.#path, JSON.stringify(Object.fromEntries(pulled)))
  }

  get #path(): string {
    return path.join(this.#options.folder, FILE)
  }

  /** Errors with images must not keep a container from starting or stopping. */
  #inTurn(work: () => Promise<void>, signal?: AbortSignal): Promise<void> {
    this.#last = this.#last.then(work).catch((error: unknown) => {
      if (signal?.aborted !== true) this.#options.onError('removing unused images', error)
    })
    return this.#last
  }
}

/** Counts `name` while `work` runs. */
async function counting<T>(counts: Map<string, number>, name: string, work: () => Promise<T>): Promise<T> {
  counts.set(name, (counts.get(name) ?? 0) + 1)
  try {
    return await work()
  } finally {
    const users = (counts.get(name) ?? 1) - 1
    if (users === 0) counts.delete(name)
    else counts.set(name, users)
  }
}

/** If the file cannot be read, no image is known to be ours, and none is removed. */
function readPulled(text: string): Record<string, string[]> {
  try {
    return pulledFile.parse(JSON.parse(text))
  } catch {
    return {}
  }
}
