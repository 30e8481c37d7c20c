/**
 * Gets the image of a container onto the host. The default image is the supplier's choice: it may be local and of any
 * size. Other images that the supplier has put on the host are used only if the supplier allows it. Everything else is pulled even if a copy exists,
 * because only the registry knows whether a customer may have it. Where the supplier has chosen no default image and the
 * host cannot reach a registry, orders without an image get the small one that the host makes itself.
 */
import type { Program, Workload } from '../../contract/agent.ts'
import { isOfRegistry } from '../../domain/registry.ts'
import type { DockerClient } from './client.ts'
import { BYTES_PER_GB } from './container-order.ts'
import { fetchEngineImage, isEngineImage } from './engine-image.ts'
import { isSameImage, parseImageName, type ImageName } from '../image-name.ts'
import type { ImageStore } from './image-store.ts'
import { NeverStarts } from '../runtime.ts'
import { imageTooLarge, pullImage, type PullOptions, type RegistryLogin } from './pull.ts'
import { checkRegistry, type RegistryRules } from './registry-rule.ts'
import { makeSmallImage } from './small-image.ts'
import type { HostDownloads } from './weights.ts'

export interface ImageFetchOptions extends RegistryRules {
  readonly client: DockerClient
  readonly images: ImageStore
  readonly defaultImage: string
  /** Local images may be used without asking a registry. */
  readonly allowLocalImages: boolean
  readonly registries: Readonly<Record<string, RegistryLogin>>
  readonly pullStallMs?: number
  /** The folder for temporary files of the small image. Absent: that image is never made. */
  readonly smallImageFolder?: string | undefined
  readonly downloads?: HostDownloads | undefined
  readonly onError: (what: string, error: unknown) => void
}

const PULL_STALL_MS = 120_000

export function imageOf(workload: Workload, defaultImage: string): ImageName {
  const image = workload.spec?.image ?? null
  return image === null ? parseImageName(defaultImage, null) : parseImageName(image.name, image.tag)
}

/** Returns the image to run. */
export async function fetchImage(
  options: ImageFetchOptions,
  workload: Workload,
  image: ImageName,
  progress: (message: string) => void,
  signal: AbortSignal,
): Promise<string> {
  if (isEngineImage(image)) return fetchEngineImage(options, image, progress, signal)
  const { client, registries, pullStallMs = PULL_STALL_MS, onError } = options
  const isDefault = isSameImage(image, parseImageName(options.defaultImage, null))
  const registryLogin = image.host === undefined ? undefined : registries[image.host]
  // The default image is the supplier's choice, so it is pulled as the supplier.
  const login = (isDefault ? undefined : loginFor(image, workload.spec?.program?.registry ?? null)) ?? registryLogin
  // The daemon's error is for the supplier only: it may reveal the supplier's network.
  const failed = (error: unknown): void => onError(`pull of ${image.full}`, error)
  const order = { image, login, stallMs: pullStallMs, progress, failed, signal }
  if (isDefault && (await client.image(image.full, signal)) !== undefined) return image.full
  if (options.allowLocalImages && (await options.images.isSuppliers(image, signal))) return image.full
  // A customer who names an image gets that one or a reason, never another image.
  const isNamed = (workload.spec?.image ?? null) !== null
  if (isDefault) return pullDefault(isNamed ? { ...options, smallImageFolder: undefined } : options, order)
  const { quiet } = await checkRegistry(image, options)
  const maxBytes = (workload.spec?.resources.storageGb ?? 0) * BYTES_PER_GB
  const pull = (): Promise<void> => pullImage(client, { ...order, maxBytes, quiet })
  // The download is compressed and may be a fraction of the unpacked size.
  if ((await options.images.fetch(image, pull, signal)) > maxBytes) throw imageTooLarge(image)
  return image.full
}

async function pullDefault(options: ImageFetchOptions, order: PullOptions): Promise<string> {
  const { client, smallImageFolder: folder, onError } = options
  const { image, progress, signal } = order
  try {
    await pullImage(client, order)
    return image.full
  } catch (error) {
    const isCutOff = error instanceof NeverStarts && error.reason === 'registry_unreachable'
    if (folder === undefined || !isCutOff) throw error
    return await makeSmallImage(client, folder, progress, signal).catch((fault: unknown) => {
      onError('making the small image', fault)
      throw error
    })
  }
}

/** The login of the order, if the image is of its registry: no other may see it. */
function loginFor(image: ImageName, registry: Program['registry']): RegistryLogin | undefined {
  if (registry === null || !isOfRegistry(image.repository, registry.server)) return undefined
  return { username: registry.username, password: registry.password }
}
