/**
 * Checks whether the memory of GPUs is free, where a DCGM exporter runs. A process that outlives its pod can keep GPU
 * memory, and the next pod on that GPU would fail or read the remains. As on hosts, a machine that has ended is listed
 * as stopping until a reading from after its end shows no memory in use without a pod. The kubelet chooses the devices,
 * so while one GPU is blocked, no free GPU of its node is sold.
 */
import { isMemoryHeld } from '../../domain/gpu-memory.ts'
import type { DriverMachine } from '../driver.ts'
import type { Warn } from './answering.ts'
import type { Cluster } from './cluster.ts'
import { listExporters, parseMemory, readExporter, type GpuMemoryUse } from './dcgm.ts'
import { machineIdOf, ORDER_ANNOTATION } from './names.ts'
import type { NodeUse } from './node-offer.ts'
import type { NodeObject, PodObject } from './objects.ts'
import { readNote } from './order-note.ts'
import type { KnownOrder } from './world.ts'

/** The maximum age of a reading for the inventory: of a free node, and of one that was blocked or did not answer. */
const FREE_MS = 5 * 60_000
const OTHER_MS = 10_000
/** The number of exporters that are read at the same time, and for one inventory. The next inventory continues. */
const WIDTH = 16
const MAX_READS = 64

interface Reading {
  /** When the reading began, by `performance.now()`. */
  readonly at: number
  readonly isRead: boolean
  /** Why the free GPUs are not sold. undefined: no memory is blocked, or it could not be read. */
  readonly blockReason: string | undefined
}

export class GpuMemory {
  readonly #cluster: Cluster
  readonly #warn: Warn
  #readings = new Map<string, Reading>()

  constructor(cluster: Cluster, warn: Warn) {
    this.#cluster = cluster
    this.#warn = warn
  }

  /** Returns the nodes of the cluster with their use, and why free GPUs are not sold. */
  async nodes(signal: AbortSignal): Promise<Array<{ readonly node: NodeObject; readonly use: NodeUse }>> {
    const { nodes, useOf } = await this.#cluster.view.read(signal)
    const uses = nodes.map((node) => ({ node, use: useOf(node.metadata.name) }))
    const gpusOf = new Map(uses.map(({ node, use }) => [node.metadata.name, use.ourGpus.size + use.otherGpus]))
    const reasons = await this.#findBlocked(gpusOf, signal)
    return uses.map(({ node, use }) => {
      const blockReason = reasons.get(node.metadata.name)
      return { node, use: blockReason === undefined ? use : { ...use, blockReason: blockReason } }
    })
  }

  /** Returns by node why its free GPUs are not sold. */
  async #findBlocked(gpusOf: ReadonlyMap<string, number>, signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const exporters = await exportersOf(this.#cluster, signal)
    this.#readings = new Map([...this.#readings].filter(([node]) => exporters.has(node) && gpusOf.has(node)))
    const now = performance.now()
    const due = [...exporters.keys()]
      .filter((node) => gpusOf.has(node))
      .map((node) => ({ node, reading: this.#readings.get(node) }))
      .filter(({ reading: last }) => last === undefined || now - last.at > maxAgeMs(last))
      .toSorted((a, b) => (a.reading?.at ?? 0) - (b.reading?.at ?? 0))
      .slice(0, MAX_READS)
    const dueExporters = due.flatMap(({ node }) => exporters.get(node) ?? [])
    await this.#read(dueExporters, gpusOf, signal)
    return new Map(
      [...this.#readings].flatMap(([node, { blockReason: held }]) => (held === undefined ? [] : [[node, held]])),
    )
  }

  /** Lists orders that have ended and have no pod any more, but whose GPUs are not proven free. */
  async pending(ended: readonly KnownOrder[], signal: AbortSignal): Promise<DriverMachine[]> {
    if (ended.length === 0) return []
    const cluster = this.#cluster
    const exporters = await exportersOf(cluster, signal)
    if (exporters.size === 0) return []
    const { nodes, useOf } = await cluster.view.read(signal)
    const names = new Map(nodes.map(({ metadata: { name } }) => [machineIdOf(cluster.config.name, name), name]))
    // Asks the cluster: a watch may still show the pod, which would then seem to own the memory.
    const pods = (await cluster.pods(signal)).map(({ pod }) => pod)
    const checked = ended.flatMap((order) => {
      const node = names.get(order.machineId)
      return node !== undefined && exporters.has(node) ? [{ order, node }] : []
    })
    const due = [...new Set(checked.map(({ node }) => node))]
    const gpusOf = new Map(due.map((node) => [node, gpusOn(node, pods) + useOf(node).otherGpus]))
    // Readings from before the end of a pod prove nothing.
    const dueExporters = due.flatMap((node) => exporters.get(node) ?? [])
    await this.#read(dueExporters, gpusOf, signal)
    return checked.flatMap(({ order: { tag, externalId }, node }): DriverMachine[] => {
      const blockReason = this.#readings.get(node)?.blockReason
      return blockReason === undefined || externalId === null
        ? []
        : [{ tag, externalId, state: 'stopping', message: blockReason }]
    })
  }

  /** `gpusOf` is the number of GPUs that pods have, by node. */
  async #read(
    exporters: readonly PodObject[],
    gpusOf: ReadonlyMap<string, number>,
    signal: AbortSignal,
  ): Promise<void> {
    const due = [...exporters]
    const readNext = async (): Promise<void> => {
      for (let exporter = due.pop(); exporter !== undefined; exporter = due.pop()) {
        const node = exporter.spec?.nodeName ?? ''
        const at = performance.now()
        try {
          const memory = parseMemory(await readExporter(this.#cluster, exporter, signal))
          this.#readings.set(node, { at, isRead: true, blockReason: findBlockReason(memory, gpusOf.get(node) ?? 0) })
        } catch (error) {
          signal.throwIfAborted()
          this.#readings.set(node, { at, isRead: false, blockReason: undefined })
          this.#warn(error, `cluster ${this.#cluster.config.name}: could not check the GPU memory of ${node}`)
        }
      }
    }
    await Promise.all(Array.from({ length: WIDTH }, readNext))
  }
}

function maxAgeMs({ isRead, blockReason: held }: Reading): number {
  return isRead && held === undefined ? FREE_MS : OTHER_MS
}

/**
 * Explains why free GPUs are not sold. `podGpus` is the number of GPUs that pods of the node have: an exporter may not
 * name the pod of each, so as many GPUs without a pod may be in use. undefined: none is blocked.
 */
export function findBlockReason(memory: ReadonlyMap<number, GpuMemoryUse>, podGpus: number): string | undefined {
  const withPod = [...memory.values()].filter(({ hasPod }) => hasPod).length
  const inUse = [...memory].filter(([, { usedMib, hasPod }]) => !hasPod && isMemoryHeld(usedMib))
  const [first] = inUse
  if (first === undefined || inUse.length <= Math.max(0, podGpus - withPod)) return undefined
  const [gpu, { usedMib }] = first
  return `${Math.round(usedMib)} MiB of GPU ${gpu} are in use, and no pod has it`
}

function gpusOn(node: string, pods: readonly PodObject[]): number {
  return pods
    .filter(({ spec, status }) => spec?.nodeName === node && !['Succeeded', 'Failed'].includes(status?.phase ?? ''))
    .reduce((sum, { metadata }) => sum + (readNote(metadata.annotations?.[ORDER_ANNOTATION])?.gpuCount ?? 0), 0)
}

async function exportersOf(cluster: Cluster, signal: AbortSignal): Promise<Map<string, PodObject>> {
  const exporters = await listExporters(cluster, signal)
  return new Map(exporters.flatMap((pod) => (pod.spec?.nodeName === undefined ? [] : [[pod.spec.nodeName, pod]])))
}
