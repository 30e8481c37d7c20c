/**
 * Disk shares where the storage driver cannot hold them, which is everywhere but on a few file systems: containers are
 * measured now and then (disk-usage.ts), and one that takes more than its share is stopped. Where the storage driver
 * does hold shares, it holds the writable layer alone: everything else is measured then.
 */
import { existsSync } from 'node:fs'
import type { DockerClient } from './client.ts'
import { BYTES_PER_GB, DISK_LABEL, ID_LABEL, TAG_LABEL } from './container-order.ts'
import { allocatedBytes, writablePaths } from './disk-usage.ts'
import type { ListedContainer } from './reply.ts'

export interface DiskWatchOptions {
  readonly client: DockerClient
  readonly everyMs: number
  /** The storage driver holds all but the volumes. */
  readonly volumesOnly: () => boolean
  readonly exceeded: (id: string, message: string) => Promise<void>
  readonly onError: (what: string, error: unknown) => void
}

/** Measures until it is told to stop. */
export function watchDisks(options: DiskWatchOptions): () => void {
  const stop = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const look = async (): Promise<void> => {
    try {
      await measure(options, stop.signal)
    } catch (error) {
      if (!stop.signal.aborted) options.onError('sizes of containers', error)
    }
    if (!stop.signal.aborted) next()
  }
  const next = (): void => {
    timer = setTimeout(() => void look(), options.everyMs).unref()
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
      if (bytes === undefined || bytes <= shareGb * BYTES_PER_GB) continue
      const writtenGb = Number((bytes / BYTES_PER_GB).toPrecision(3))
      await options.exceeded(id, `It takes ${writtenGb} GB of the disk and has a share of ${shareGb} GB.`)
    } catch (error) {
      // The others are measured all the same.
      if (!signal.aborted) options.onError(`the disk share of ${id}`, error)
    }
  }
}

/** undefined: it has gone meanwhile. */
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
  // The daemon is in a virtual machine, or keeps layers in another way: its own figure is all there is.
  if ((await client.container(listed.Id, signal))?.State.Status !== 'running') return undefined
  const volumeBytes = volumesOf(listed).length > 0 ? await client.volumeBytes(signal) : new Map<string, number>()
  const inVolumes = volumesOf(listed).reduce((all, name) => all + (volumeBytes.get(name) ?? 0), 0)
  return (withLayer ? await client.layerBytes(listed.Id, signal) : 0) + inVolumes
}

function volumesOf(container: ListedContainer): string[] {
  return container.Mounts.flatMap(({ Type, Name }) => (Type === 'volume' && Name !== undefined ? [Name] : []))
}
