/**
 * Which images are on this host because a customer wanted them: those that were not there before we pulled them. Each
 * is removed when the last container of it is gone, so that customers do not fill the disk with what nobody uses. What
 * the owner of the host has put there, and the default image, stay. The list is kept in a file, since the daemon has no
 * labels for images that others have made.
 */
import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { DockerRefused, type DockerClient } from './client.ts'
import { TAG_LABEL } from './container-order.ts'
import type { ImageName } from './image-name.ts'
import { writeDurably } from '../durable-file.ts'

export interface ImageStoreOptions {
  readonly client: DockerClient
  readonly folder: string
  readonly defaultImage: string
  readonly onError: (what: string, error: unknown) => void
}

/** Names by the ids of images. */
const pulledFile = z.record(z.string(), z.array(z.string()))

const FILE = 'images.list'
/** Of images that are still there. Beyond that the oldest are forgotten, and stay. */
const MAX_IMAGES = 1_000

export class ImageStore {
  readonly #options: ImageStoreOptions
  /** Names that somebody is about to make a container of. */
  readonly #inUse = new Map<string, number>()
  #pulled: Map<string, string[]> | undefined
  #last: Promise<void> = Promise.resolve()

  constructor(options: ImageStoreOptions) {
    this.#options = options
  }

  /** While `work` makes a container of it, the image is not removed. */
  async hold<T>(image: ImageName, work: () => Promise<T>): Promise<T> {
    this.#inUse.set(image.full, (this.#inUse.get(image.full) ?? 0) + 1)
    try {
      return await work()
    } finally {
      const left = (this.#inUse.get(image.full) ?? 1) - 1
      if (left === 0) this.#inUse.delete(image.full)
      else this.#inUse.set(image.full, left)
    }
  }

  /** Pulls it by `pull`, and remembers it as ours where it was not there. How large it is, in bytes. */
  async fetch(image: ImageName, pull: () => Promise<void>, signal: AbortSignal): Promise<number> {
    const { client } = this.#options
    const before = await client.image(image.full, signal)
    await pull()
    const after = await client.image(image.full, signal)
    if (after === undefined) throw new Error(`${image.full} is not there after it was pulled`)
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

  /** Removes what no container of ours uses any more. What cannot be removed now is tried the next time. */
  sweep(signal: AbortSignal): Promise<void> {
    return this.#inTurn(async () => {
      const { client, defaultImage } = this.#options
      const pulled = await this.#load()
      if (pulled.size === 0) return
      const kept = new Set((await client.containers(TAG_LABEL, signal)).map(({ ImageID }) => ImageID))
      kept.add((await client.image(defaultImage, signal))?.Id ?? '')
      let isNews = false
      for (const [id, names] of pulled) {
        if (kept.has(id) || names.some((name) => this.#inUse.has(name))) continue
        if (!(await this.#remove(id, names, signal))) continue
        pulled.delete(id)
        isNews = true
      }
      if (isNews) await this.#save(pulled)
    }, signal)
  }

  /** By the names that customers gave it, as far as these still mean it: one that its owner gave it keeps it. */
  async #remove(id: string, names: readonly string[], signal: AbortSignal): Promise<boolean> {
    const { client } = this.#options
    try {
      for (const name of names) {
        if ((await client.image(name, signal))?.Id === id) await client.removeImage(name, signal)
      }
      // A name may have been given to a newer one, which leaves this one without any.
      const left = await client.image(id, signal)
      if (left !== undefined && left.RepoTags.length === 0) await client.removeImage(id, signal)
      return true
    } catch (error) {
      // A container of somebody else uses it.
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

  /** Images are no reason for a container not to start or to stop. */
  #inTurn(work: () => Promise<void>, signal?: AbortSignal): Promise<void> {
    this.#last = this.#last.then(work).catch((error: unknown) => {
      if (signal?.aborted !== true) this.#options.onError('images of customers', error)
    })
    return this.#last
  }
}

/** Where it cannot be read, nothing is known to be ours, and nothing is removed. */
function readPulled(text: string): Record<string, string[]> {
  try {
    return pulledFile.parse(JSON.parse(text))
  } catch {
    return {}
  }
}
