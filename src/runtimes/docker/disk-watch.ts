/**
 * Enforces disk limits where the storage driver cannot, which is the common case: containers are measured periodically
 * (disk-usage.ts), and one over its limit is stopped. A storage driver with quotas limits only the writable layer, so
 * the rest is still measured.
 */
import { existsSync } from 'node:fs'
import type { DockerClient } from './client.ts'
import { BYTES_PER_GB, DISK_LABEL, ID_LABEL, TAG_LABEL } from './container-order.ts'
import { allocatedBytes, writablePaths } from './disk-usage.ts'
import type { ListedContainer } from './reply.ts'

export interface DiskWatchOptions {
  readonly client: DockerClient
  readonly everyMs: number
  /** The storage driver limits everything but the volumes. */
  readonly volumesOnly: () => boolean
  readonly exceeded: (id: string, message: string) => Promise<void>
  /** Called with each measurement. */
  readonly measured: (id: string, bytes: number) => void
  readonly onError: (what: string, error: unknown) => void
}

/** Returns a function that stops it. */
export function watchDisks(options: DiskWatchOptions): () => void {
  const stop = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const check = async (): Promise<void> => {
    try {
      await measure(options, stop.signal)
    } catch (error) {
      if (!stop.signal.aborted) options.onError('measuring disk use', error)
    }
    if (!stop.signal.aborted) next()
  }
  const next = (): void => {
    timer = setTimeout(() => void check(), options.everyMs).unref()
  }
  next()
  return () => {
    stop.abort()
    clearTimeout(timer)
  }
}

async function measure(options: DiskWatchOptions, signal: AbortSignal): Promise<void> {
  const { client } = options
  const running = (await client.containers(TAG_LABEL, signal)).filter(({ State }) => State === 'running')
  for (const listed of running) {
    const id = listed.Labels[ID_LABEL]
    const shareGb = Number(listed.Labels[DISK_LABEL])
    if (id === undefined || !Number.isFinite(shareGb)) continue
    try {
      const bytes = await bytesOf(options, listed, signal)
      if (bytes === undefined) continue
      options.measured(id, bytes)
      if (bytes <= shareGb * BYTES_PER_GB) continue
      const writtenGb = Number((bytes / BYTES_PER_GB).toPrecision(3))
      await options.exceeded(id, `The container uses ${writtenGb} GB of disk; its limit is ${shareGb} GB.`)
    } catch (error) {
      // Continue with the others.
      if (!signal.aborted) options.onError(`measuring the disk use of ${id}`, error)
    }
  }
}

/** undefined: gone meanwhile. */
async function bytesOf(
  { client, volumesOnly }: DiskWatchOptions,
  listed: ListedContainer,
  signal: AbortSignal,
): Promise<number | undefined> {
  const container = await client.container(listed.Id, signal)
  if (container === undefined) return undefined
  const withLayer = !volumesOnly()
  const paths = writablePaths(container, withLayer)
  const isHere = paths !== undefined && paths.every((path) => existsSync(path))
  if (isHere) return allocatedBytes(paths, signal)
  // The daemon is in a virtual machine, or stores layers differently: use its own figure.
  if ((await client.container(listed.Id, signal))?.State.Status !== 'running') return undefined
  const volumeBytes = volumesOf(listed).length > 0 ? await client.volumeBytes(signal) : new Map<string, number>()
  const inVolumes = volumesOf(listed).reduce((all, name) => all + (volumeBytes.get(name) ?? 0), 0)
  return (withLayer ? await client.layerBytes(listed.Id, signal) : 0) + inVolumes
}

function volumesOf(container: ListedContainer): string[] {
  return container.Mounts.flatMap(({ Type, Name }) => (Type === 'volume' && Name !== undefined ? [Name] : []))
}
