/**
 * The disk of a container on its way to another host: its files as an image, and the volumes of its image. The sender
 * changes nothing of its own. The receiver stores what it has got only when all of it is there and verified; whatever ends
 * a copy before that, the next one begins anew.
 */
import { randomBytes } from 'node:crypto'
import { Readable, type Duplex } from 'node:stream'
import type { Workload } from '../../contract/agent.ts'
import { logStream } from '../log-stream.ts'
import { CustomerError, NeverStarts } from '../runtime.ts'
import type { DockerClient } from './client.ts'
import { anonymousVolumes, DISK_IMAGE, isGoing } from './container-power.ts'
import { nameOf, type KeptVolume } from './container-order.ts'
import { ArchiveReader, writeArchive, type ArchiveSource } from './disk-archive.ts'
import { loadImage } from './image-load.ts'
import { volumeListReply, type Container } from './reply.ts'
import { byteProgress } from '../byte-progress.ts'
import type { HostDownloads } from './weights.ts'
import type { WorkloadFile, WorkloadFiles } from './workload-file.ts'

export interface DiskCopiesOptions {
  readonly client: DockerClient
  readonly files: WorkloadFiles
  readonly downloads?: HostDownloads | undefined
  readonly onError: (what: string, error: unknown) => void
}

const COPY_IMAGE = 'berth-copy'
const COPY_LABEL = 'berth.copy'
/** The sender shows every few seconds that it is still there. */
const STALL_MS = 2 * 60_000
const LOAD_TIMEOUT_MS = 6 * 60 * 60_000
/** Then the start has failed, and the disk stays where it was. */
const MAX_TRIES = 5

export class DiskCopies {
  readonly #options: DiskCopiesOptions
  readonly #failures = new Map<string, number>()

  constructor(options: DiskCopiesOptions) {
    this.#options = options
  }

  /** The disk of a container that is off. */
  send(id: string, container: Container): Duplex {
    const { client, onError } = this.#options
    const control = new AbortController()
    const image = `${COPY_IMAGE}:${id}-${randomBytes(4).toString('hex')}`
    const collected = this.#collect(id, container, image, control.signal)
    const body = Readable.from(writeArchive(collected), { objectMode: false })
    body.once('close', () => {
      control.abort()
      collected
        .catch(() => {})
        .then(() => client.removeImage(image))
        .catch((error: unknown) => onError(`removing ${image}`, error))
    })
    return logStream(body)
  }

  async #collect(id: string, container: Container, image: string, signal: AbortSignal): Promise<ArchiveSource> {
    const { client, files } = this.#options
    const { Status } = container.State
    if (Status === 'running' || Status === 'paused' || isGoing(Status))
      throw new Error('The disk of a container that is not off cannot be copied.')
    const file = await files.read(id)
    if (file === undefined) throw new Error('The host has lost the files of this container.')
    const [repo = '', tag = ''] = image.split(':')
    await client.commitContainer(container.Id, { repo, tag }, signal)
    const facts = await client.image(image, signal)
    if (facts === undefined) throw new Error(`${image} is gone`)
    const volumes = anonymousVolumes(container)
    const open = (path: string, query = {}) => client.stream('GET', path, { query, timeoutMs: LOAD_TIMEOUT_MS, signal })
    return {
      head: {
        image,
        hostKey: file.hostKey,
        bytes: facts.Size,
        layers: facts.RootFS.Layers,
        volumePaths: volumes.map(({ path }) => path),
      },
      parts: [
        () => open(`/images/${encodeURIComponent(image)}/get`),
        ...volumes.map(
          ({ path }) =>
            () =>
              open(`/containers/${container.Id}/archive`, { path: `${path}/.` }),
        ),
      ],
    }
  }

  /** Gets the disk of a workload from the host that it moves from, so that its container can be created. */
  async fetch(workload: Workload, progress: (message: string) => void, signal: AbortSignal): Promise<WorkloadFile> {
    const { id } = workload
    try {
      const file = await this.#fetch(id, progress, signal)
      this.#failures.delete(id)
      return file
    } catch (error) {
      if (signal.aborted) throw error
      const failures = (this.#failures.get(id) ?? 0) + 1
      this.#failures.set(id, failures)
      this.#options.onError(`copying the disk of ${nameOf(id)}`, error)
      if (failures < MAX_TRIES) throw new CustomerError('The disk could not be copied; the host is trying again.')
      throw new NeverStarts('disk_not_copied', `The disk could not be copied in ${MAX_TRIES} attempts.`)
    }
  }

  async #fetch(id: string, progress: (message: string) => void, signal: AbortSignal): Promise<WorkloadFile> {
    const { client, files, downloads } = this.#options
    if (downloads === undefined) throw new Error('this host downloads nothing')
    await this.#clear(id, signal)
    progress('copying the disk')
    const opened = await downloads.openDisk(id, signal)
    if (!opened.ok) throw new Error(opened.message)
    try {
      const reader = new ArchiveReader(inTime(opened.value))
      const head = await reader.head()
      if (!head.image.startsWith(`${COPY_IMAGE}:${id}-`)) throw new Error(`it names the image ${head.image}`)
      const report = byteProgress('copying the disk', progress)
      let done = 0
      const counted = async function* () {
        for await (const chunk of reader.part()) {
          report((done += chunk.length), Math.max(done, head.bytes))
          yield chunk
        }
      }
      await loadImage(client, Readable.from(counted(), { objectMode: false }), LOAD_TIMEOUT_MS, signal)
      const image = await client.image(head.image, signal)
      if (image?.RootFS.Layers.join() !== head.layers.join()) throw new Error('the layers of its image differ')
      const volumes = await this.#fillVolumes(id, head.image, head.volumePaths, counted, signal)
      await reader.verify()
      await client.act('POST', `/images/${encodeURIComponent(head.image)}/tag`, {
        query: { repo: DISK_IMAGE, tag: id },
        signal,
      })
      const disk = { image: image.Id, volumes, isMoving: true }
      const file = await files.keepCopy(id, { hostKey: head.hostKey, disk })
      await client.removeImage(head.image, signal)
      return file
    } finally {
      opened.value.destroy()
    }
  }

  /** Volumes get their files through a container that is never started. */
  async #fillVolumes(
    id: string,
    image: string,
    paths: readonly string[],
    part: () => AsyncIterable<Buffer>,
    signal: AbortSignal,
  ): Promise<KeptVolume[]> {
    const { client } = this.#options
    if (paths.length === 0) return []
    const volumes = paths.map((path) => ({ path, name: randomBytes(32).toString('hex') }))
    const labels = { [COPY_LABEL]: id }
    for (const { name } of volumes)
      await client.act('POST', '/volumes/create', { body: { Name: name, Labels: labels }, signal })
    const mounts = volumes.map(({ path, name }) => ({
      Type: 'volume',
      Source: name,
      Target: path,
      VolumeOptions: { NoCopy: true },
    }))
    const order = { Image: image, Cmd: ['true'], Labels: labels, NetworkDisabled: true, HostConfig: { Mounts: mounts } }
    const helper = await client.createContainer(`${COPY_IMAGE}-${id}`, order, signal)
    for (const { path } of volumes) {
      const archive = Readable.from(part(), { objectMode: false })
      const options = { query: { path }, archive, timeoutMs: LOAD_TIMEOUT_MS, signal }
      await client.act('PUT', `/containers/${helper}/archive`, options)
    }
    await client.removeContainer(helper, signal, true)
    return volumes
  }

  /** Removes what a copy that did not succeed has left. */
  async forget(id: string, signal: AbortSignal): Promise<void> {
    this.#failures.delete(id)
    await this.#clear(id, signal)
  }

  async #clear(id: string, signal: AbortSignal): Promise<void> {
    const { client } = this.#options
    const label = `${COPY_LABEL}=${id}`
    for (const { Id } of await client.containers(label, signal)) await client.removeContainer(Id, signal, true)
    const query = { filters: JSON.stringify({ label: [label] }) }
    const { Volumes } = await client.call('GET', '/volumes', volumeListReply, { query, signal })
    for (const { Name } of Volumes) await client.removeVolume(Name, signal)
    for (const name of await client.imageNames(COPY_IMAGE, signal))
      if (name.startsWith(`${COPY_IMAGE}:${id}-`)) await client.removeImage(name, signal)
  }
}

/** Ends a stream from which nothing comes, while somebody waits for it. */
async function* inTime(stream: Readable): AsyncGenerator<Buffer> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  for (;;) {
    const stallTimer = setTimeout(() => stream.destroy(new Error('The other host sends nothing.')), STALL_MS)
    try {
      const next = await chunks.next()
      if (next.done === true) return
      yield next.value
    } finally {
      clearTimeout(stallTimer)
    }
  }
}
