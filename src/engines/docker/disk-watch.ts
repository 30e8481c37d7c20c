/**
 * Disk shares where the storage driver cannot hold them, which is everywhere but on a few file systems: containers are
 * measured now and then, and one that has written more than its share is ended. Volumes that an image declares count,
 * since the customer fills them too; logs do not, they are bounded. Where the storage driver does hold shares, it does
 * not hold those volumes to them: only they are measured then.
 */
import type { DockerClient } from './client.ts'
import { BYTES_PER_GB, DISK_LABEL, ID_LABEL, TAG_LABEL } from './container-order.ts'
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
  const sized = !options.volumesOnly()
  const running = (await client.containers(TAG_LABEL, signal, sized)).filter(({ State }) => State === 'running')
  const hasVolumes = running.some((container) => volumesOf(container).length > 0)
  const volumeBytes = hasVolumes ? await client.volumeBytes(signal) : new Map<string, number>()
  for (const container of running) {
    const id = container.Labels[ID_LABEL]
    const shareGb = Number(container.Labels[DISK_LABEL])
    if (id === undefined || !Number.isFinite(shareGb)) continue
    const inVolumes = volumesOf(container).reduce((all, name) => all + (volumeBytes.get(name) ?? 0), 0)
    const bytes = (container.SizeRw ?? 0) + inVolumes
    if (bytes <= shareGb * BYTES_PER_GB) continue
    const writtenGb = Number((bytes / BYTES_PER_GB).toPrecision(3))
    try {
      await options.exceeded(id, `It wrote ${writtenGb} GB and has a share of ${shareGb} GB of the disk.`)
    } catch (error) {
      // The others are measured all the same.
      options.onError(`the end of ${id}, which has written too much`, error)
    }
  }
}

function volumesOf(container: ListedContainer): string[] {
  return container.Mounts.flatMap(({ Type, Name }) => (Type === 'volume' && Name !== undefined ? [Name] : []))
}
