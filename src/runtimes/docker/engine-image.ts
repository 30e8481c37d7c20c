/** The image of our own engines, which a host gets from its server. It stays on the host until there is a newer one. */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { ENGINE_REPOSITORY, type EngineImageFacts } from '../../contract/engine-image.ts'
import { NeverStarts } from '../runtime.ts'
import { DockerRefused, type DockerClient } from './client.ts'
import type { ImageName } from '../image-name.ts'
import { loadImage } from './image-load.ts'
import { byteProgress } from '../byte-progress.ts'
import { errorOf, type HostDownloads } from './weights.ts'

export interface EngineImageOptions {
  readonly client: DockerClient
  readonly downloads?: HostDownloads | undefined
  readonly onError: (what: string, error: unknown) => void
}

/** Unpacks and compares every layer. */
const LOAD_TIMEOUT_MS = 10 * 60_000

/** One download at a time: the second finds the image of the first. */
const downloading = new WeakMap<DockerClient, Promise<unknown>>()

export function isEngineImage({ repository }: ImageName): boolean {
  return repository === ENGINE_REPOSITORY
}

/** Returns the name to run. */
export async function fetchEngineImage(
  options: EngineImageOptions,
  image: ImageName,
  progress: (message: string) => void,
  signal: AbortSignal,
): Promise<string> {
  const { downloads } = options
  if (downloads === undefined) throw new NeverStarts('image_unavailable', `This host cannot download ${image.full}.`)
  const facts = await downloads.images.engineImage(signal)
  if (!facts.ok) throw errorOf(facts, 'image_unavailable')
  const { tag } = facts.value
  if (image.reference !== 'latest' && image.reference !== tag)
    throw new NeverStarts('image_not_found', `The server has ${ENGINE_REPOSITORY}:${tag}, not ${image.full}.`)
  const name = `${ENGINE_REPOSITORY}:${tag}`
  const load = async (): Promise<void> => {
    await before
    if ((await options.client.image(name, signal)) === undefined)
      await downloadImage({ ...options, downloads }, facts.value, progress, signal)
  }
  const before = downloading.get(options.client)
  const loaded = load()
  downloading.set(
    options.client,
    loaded.catch(() => {}),
  )
  await loaded
  return name
}

async function downloadImage(
  options: EngineImageOptions & { readonly downloads: HostDownloads },
  facts: EngineImageFacts,
  progress: (message: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { client, downloads } = options
  const name = `${ENGINE_REPOSITORY}:${facts.tag}`
  const report = byteProgress(`downloading ${name}`, progress)
  const onBytes = (done: number): void => report(done, facts.bytes)
  const file = await downloads.images.fetchEngineImage(facts, downloads.imageFolder, { signal, onBytes })
  if (!file.ok) throw errorOf(file, 'image_unavailable')
  progress(`loading ${name}`)
  await loadImage(client, createReadStream(file.value), LOAD_TIMEOUT_MS, signal)
  await rm(file.value, { force: true })
  await removeOlder(options, name, signal)
}

async function removeOlder(
  { client, onError }: EngineImageOptions,
  current: string,
  signal: AbortSignal,
): Promise<void> {
  for (const name of await client.imageNames(ENGINE_REPOSITORY, signal)) {
    if (name === current) continue
    await client.removeImage(name, signal).catch((error: unknown) => {
      // A container uses it.
      if (!(error instanceof DockerRefused && error.status === 409)) onError(`removing ${name}`, error)
    })
  }
}
