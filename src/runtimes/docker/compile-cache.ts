/**
 * Volumes in which engines keep what they compile. A container gets the volume of an earlier one with the same owner,
 * image, GPUs and model, so its engine compiles nothing again. No two containers have one volume at a time: engines expect
 * that nobody else changes their files. While it is in use, a volume counts as disk of its container; those that nobody
 * uses share a budget, and the oldest go first.
 */
import { z } from 'zod'
import { sha256 } from '../../base/id.ts'
import type { Workload } from '../../contract/agent.ts'
import type { DockerClient } from './client.ts'
import type { ListedContainer } from './reply.ts'

const CACHE_LABEL = 'berth.compile-cache'
const FOLDER = '/var/cache/berth'
const KEY_CHARS = 32

const cacheListReply = z.object({
  Volumes: z
    .array(z.object({ Name: z.string(), CreatedAt: z.string().catch('') }))
    .nullish()
    .transform((volumes) => volumes ?? []),
})

/** A volume for a container that is about to be created. */
export interface CacheMount {
  readonly volume: string
  readonly variables: Readonly<Record<string, string>>
}

export interface CompileCachesOptions {
  readonly client: DockerClient
  readonly gpus: ReadonlyArray<{ readonly index: number; readonly name: string }>
  /** The budget for volumes that no container has. 0: this host keeps none. */
  readonly budgetBytes: number
  readonly onError: (what: string, error: unknown) => void
}

export class CompileCaches {
  readonly #options: CompileCachesOptions
  #lastTidy: Promise<void> = Promise.resolve()

  constructor(options: CompileCachesOptions) {
    this.#options = options
  }

  /** `neighbors`: the containers of this host. undefined: the container has no such volume. */
  async mountFor(
    workload: Workload,
    image: string,
    neighbors: readonly ListedContainer[],
    signal: AbortSignal,
  ): Promise<CacheMount | undefined> {
    const { client, gpus, budgetBytes } = this.#options
    const { owner, model, variables = [] } = workload.spec?.program?.compileCache ?? {}
    if (owner === undefined || budgetBytes === 0) return undefined
    const facts = await client.image(image, signal)
    // The folder belongs to root; an engine of another user could not write to it, and would not start.
    if (facts === undefined || !['', '0', 'root'].includes(facts.Config.User.split(':')[0] ?? '')) return undefined
    const models = workload.node.gpuIndexes.map((index) => gpus.find((gpu) => gpu.index === index)?.name)
    const key = sha256(JSON.stringify([owner, facts.Id, models, model]))
      .toString('hex')
      .slice(0, KEY_CHARS)
    const used = namesUsedBy(neighbors)
    let place = 0
    while (used.has(volumeOf(key, place))) place += 1
    return {
      volume: volumeOf(key, place),
      variables: Object.fromEntries(variables.map((name) => [name, `${FOLDER}/${name.toLowerCase()}`])),
    }
  }

  /** Removes unused volumes until the others fit into the budget. */
  tidy(signal: AbortSignal): Promise<void> {
    this.#lastTidy = this.#lastTidy
      .then(() => this.#tidy(signal))
      .catch((error: unknown) => {
        if (!signal.aborted) this.#options.onError('removing compile caches', error)
      })
    return this.#lastTidy
  }

  async #tidy(signal: AbortSignal): Promise<void> {
    const { client, budgetBytes } = this.#options
    const query = { filters: JSON.stringify({ label: [CACHE_LABEL] }) }
    const { Volumes } = await client.call('GET', '/volumes', cacheListReply, { query, signal })
    if (Volumes.length === 0) return
    const bytes = await client.volumeBytes(signal)
    const used = namesUsedBy(await client.containers(CACHE_LABEL, signal))
    let bytesLeft = budgetBytes
    for (const { Name } of Volumes.toSorted((a, b) => Date.parse(b.CreatedAt) - Date.parse(a.CreatedAt))) {
      if (used.has(Name)) continue
      bytesLeft -= bytes.get(Name) ?? 0
      // The daemon refuses to remove one that a container has got meanwhile.
      if (bytesLeft < 0) await client.removeVolume(Name, signal)
    }
  }
}

/** The parts of the request to Docker that creates the container. */
export function cacheOrder(cache: CacheMount | undefined) {
  if (cache === undefined) return { labels: {}, mounts: [] }
  const labels = { [CACHE_LABEL]: cache.volume }
  const options = { NoCopy: true, Labels: labels }
  return {
    labels,
    mounts: [{ Type: 'volume', Source: cache.volume, Target: FOLDER, VolumeOptions: options }],
  }
}

function volumeOf(key: string, place: number): string {
  return `berth-compile-cache-${key}-${place}`
}

function namesUsedBy(containers: readonly ListedContainer[]): Set<string> {
  return new Set(containers.flatMap(({ Mounts }) => Mounts.flatMap(({ Name }) => Name ?? [])))
}
