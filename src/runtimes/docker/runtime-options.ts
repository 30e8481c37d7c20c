/** The decisions of a host about its containers. */
import type { Resolve } from '../../base/net/outbound.ts'
import type { DockerGpu, GpuMode } from './container-order.ts'
import type { RegistryLogin } from './pull.ts'
import type { HostDownloads } from './weights.ts'

export interface DockerRuntimeOptions {
  readonly socketPath: string
  /** For state that the daemon does not keep: one small file per container. */
  readonly folder: string
  /** The folder for volumes. Absent: this host has none. */
  readonly volumeFolder?: string
  /** The image for orders without one. */
  readonly defaultImage: string
  /** See `ImageFetchOptions`. */
  readonly smallImageFolder?: string
  /** Customers may use images that are already on this host. */
  readonly allowLocalImages: boolean
  readonly gpus: readonly DockerGpu[]
  /** Absent: detected from the daemon. */
  readonly gpuMode?: GpuMode
  readonly allowPrivateRegistries: boolean
  /** Registries that may have private addresses: `host:port`, or `host` for all of its ports. */
  readonly allowedRegistries: readonly string[]
  /** Logins by host as written in image names. These hosts may have private addresses. */
  readonly registries: Readonly<Record<string, RegistryLogin>>
  /** The address of published ports. Absent: the loopback address, which also works with Docker Desktop and Podman. */
  readonly portAddress?: string
  readonly pullStallMs?: number
  readonly diskWatchMs?: number
  readonly resolve?: Resolve
  /** The file of the network namespace with the daemon's bridges. Absent: our own. */
  readonly networkNamespace?: string
  /** Starts containers even if they cannot be isolated. */
  readonly allowUnfenced: boolean
  readonly fenceCheckMs?: number
  /** How long a program gets to end when its container is stopped. */
  readonly stopGraceS?: number
  /** More notes for the host's owner, beside those of the runtime. */
  readonly notes?: readonly string[]
  /** Downloads from the server. Absent: no weights, and no image of our engines. */
  readonly downloads?: HostDownloads | undefined
  /** The budget for code that engines have compiled. Absent: nothing is kept. */
  readonly compileCacheBytes?: number
  /** Receives errors outside of any call. */
  readonly onError: (what: string, error: unknown) => void
}
