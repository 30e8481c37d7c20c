/**
 * The nodes of a cluster and the resources that their pods have, updated by watches. A watch alone is never trusted:
 * everything is listed again every few minutes, after a watch was cut for long or has expired (410), and while a view
 * is not complete.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { hasStatus, type KubernetesApi, type WatchEvent } from './api.ts'
import type { ClusterConfig } from './config.ts'
import { ORDER_ANNOTATION, TAG_ANNOTATION } from './names.ts'
import { CLAIMS_PATH, SLICES_PATH, viewDevices } from './devices.ts'
import { isReady, noUse, type NodeUse } from './node-offer.ts'
import {
  nodeObject,
  podObject,
  resourceClaimObject,
  resourceSlice,
  type NodeObject,
  type PodObject,
  type ResourceClaimObject,
  type ResourceSliceObject,
} from './objects.ts'
import { readNote } from './order-note.ts'
import { parseQuantity } from './quantity.ts'

const RELIST_MS = 5 * 60_000
const RETRY_MS = { first: 500, last: 15_000 } as const

type ChangeOf<T> = (before: T | undefined, after: T | undefined) => 'node' | 'pod' | undefined

const rawObject = z.looseObject({
  metadata: z.looseObject({
    name: z.string().default(''),
    namespace: z.string().optional(),
    resourceVersion: z.string().optional(),
  }),
})

/** The resources of a node that one pod has. */
interface PodUse {
  readonly node: string
  readonly isOurs: boolean
  readonly gpuIndexes: readonly number[]
  readonly gpus: number
  readonly cores: number
  readonly bytes: number
  readonly diskBytes: number
}

export interface ClusterViewOptions {
  readonly api: KubernetesApi
  readonly config: ClusterConfig
  /** All tags of this installation begin with it. Pods with other tags count as foreign. */
  readonly tagPrefix: string
  /** Called when a node or one of our pods may have changed. */
  readonly changed: (what: 'node' | 'pod') => void
  readonly warn: (error: unknown, what: string) => void
  readonly relistMs?: number
}

export class ClusterView {
  readonly #closing = new AbortController()
  readonly #nodes: Feed<NodeObject>
  readonly #pods: Feed<PodUse>
  /** Set if the cluster assigns GPUs by resource claims. */
  readonly #slices: Feed<ResourceSliceObject> | undefined
  readonly #claims: Feed<ResourceClaimObject> | undefined
  readonly #options: ClusterViewOptions
  readonly #followers = new Map<string, PodFollower>()
  #running: Promise<unknown> | undefined

  constructor(options: ClusterViewOptions) {
    const { tagPrefix, config } = options
    this.#nodes = new Feed('/api/v1/nodes', (object) => nodeObject.parse(object), changeOfNode, options)
    const reduce = (object: unknown): PodUse | undefined => {
      const pod = podObject.parse(object)
      this.#followers.get(`${pod.metadata.namespace ?? ''}/${pod.metadata.name}`)?.take(pod)
      return useOfPod(pod, config.gpuResource, tagPrefix)
    }
    this.#pods = new Feed('/api/v1/pods', reduce, changeOfPod, options)
    this.#options = options
    if (config.dra === undefined) return
    this.#slices = new Feed(
      SLICES_PATH,
      (object) => resourceSlice.parse(object),
      () => 'node',
      options,
    )
    this.#claims = new Feed(
      CLAIMS_PATH,
      (object) => resourceClaimObject.parse(object),
      () => 'node',
      options,
    )
  }

  start(): void {
    const { signal } = this.#closing
    const feeds = [this.#nodes, this.#pods, this.#slices, this.#claims].flatMap((feed) => feed ?? [])
    this.#running ??= Promise.all(feeds.map((feed) => feed.run(signal)))
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#running
  }

  /** Follows one pod from now on, until the caller calls `stop`. */
  follow({ namespace, name }: { readonly namespace: string; readonly name: string }): PodFollower {
    const key = `${namespace}/${name}`
    const follower = new PodFollower(() => {
      if (this.#followers.get(key) === follower) this.#followers.delete(key)
    })
    this.#followers.set(key, follower)
    return follower
  }

  /** Returns the nodes that are known to be ready now. */
  readyNodes(): string[] {
    return this.#nodes
      .known()
      .filter(isReady)
      .map(({ metadata }) => metadata.name)
  }

  /** Returns a complete view of a moment ago, or throws. */
  async read(signal: AbortSignal): Promise<{ nodes: readonly NodeObject[]; useOf: (node: string) => NodeUse }> {
    const [nodes, pods] = await Promise.all([this.#nodes.read(signal), this.#pods.read(signal)])
    const uses = new Map<string, NodeUse>()
    for (const pod of pods) uses.set(pod.node, addUse(uses.get(pod.node) ?? noUse, pod))
    const { dra } = this.#options.config
    const useOf = (node: string): NodeUse => uses.get(node) ?? noUse
    if (dra === undefined) return { nodes, useOf }
    const [slices, claims] = await Promise.all([this.#slices?.read(signal), this.#claims?.read(signal)])
    const devices = viewDevices(slices ?? [], claims ?? [], dra, this.#options.tagPrefix)
    return {
      nodes,
      useOf: (node) => ({ ...useOf(node), otherGpus: devices.othersOf(node), devices: devices.devicesOf(node) }),
    }
  }
}

/** The newest state of one pod that the watch reported. */
export class PodFollower {
  readonly stop: () => void
  #news: PodObject | undefined
  #wake: () => void = () => {}

  constructor(stop: () => void) {
    this.stop = stop
  }

  take(pod: PodObject): void {
    this.#news = pod
    this.#wake()
  }

  /** Returns each state once. undefined: the time passed without a new state, or the watch was cut. */
  async next(withinMs: number, signal: AbortSignal): Promise<PodObject | undefined> {
    if (this.#news === undefined) {
      const timer = new AbortController()
      const update = new Promise<void>((resolve) => (this.#wake = resolve))
      const deadline = pause(withinMs, undefined, { signal: AbortSignal.any([signal, timer.signal]) })
      await Promise.race([update, deadline]).finally(() => timer.abort())
      deadline.catch(() => {})
    }
    const pod = this.#news
    this.#news = undefined
    return pod
  }
}

/** The objects of one kind. `reduce` keeps what is needed of each; undefined: nothing. */
class Feed<T> {
  readonly #path: string
  readonly #reduce: (object: unknown) => T | undefined
  readonly #changeOf: ChangeOf<T>
  readonly #options: ClusterViewOptions
  #known = new Map<string, T>()
  /** undefined: not listed yet, or the watch has ended since. */
  #version: string | undefined

  constructor(
    path: string,
    reduce: (object: unknown) => T | undefined,
    changeOf: ChangeOf<T>,
    options: ClusterViewOptions,
  ) {
    this.#path = path
    this.#reduce = reduce
    this.#changeOf = changeOf
    this.#options = options
  }

  async read(signal: AbortSignal): Promise<T[]> {
    if (this.#version === undefined) await this.#list(signal)
    return this.known()
  }

  known(): T[] {
    return [...this.#known.values()]
  }

  async run(signal: AbortSignal): Promise<void> {
    const { warn, config, relistMs = RELIST_MS } = this.#options
    let waitMs: number = RETRY_MS.first
    while (!signal.aborted) {
      try {
        if (this.#version === undefined) await this.#list(signal)
        const relist = AbortSignal.timeout(relistMs)
        await this.#watch(AbortSignal.any([signal, relist]), () => (waitMs = RETRY_MS.first))
        if (relist.aborted) this.#version = undefined
      } catch (error) {
        if (signal.aborted) return
        // Any error leads to a new list, which shows the current state.
        this.#version = undefined
        if (!hasStatus(error, 410)) warn(error, `cluster ${config.name}: could not watch ${this.#path}; listing again`)
        await pause(waitMs, undefined, { signal }).catch(() => {})
        waitMs = Math.min(2 * waitMs, RETRY_MS.last)
      }
    }
  }

  async #list(signal: AbortSignal): Promise<void> {
    const values = new Map<string, T>()
    const { items, resourceVersion } = await this.#options.api.list(this.#path, rawObject, { signal })
    for (const item of items) {
      const value = this.#reduce(item)
      if (value !== undefined) values.set(keyOf(item), value)
    }
    this.#known = values
    this.#version = resourceVersion
  }

  /** Returns when the server or the signal ends the watch. */
  async #watch(signal: AbortSignal, onAlive: () => void): Promise<void> {
    try {
      for await (const event of this.#options.api.watch(this.#path, this.#version ?? '', signal)) {
        onAlive()
        this.#take(event)
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }

  #take({ type, object }: WatchEvent): void {
    const item = rawObject.parse(object)
    this.#version = item.metadata.resourceVersion ?? this.#version
    if (type === 'BOOKMARK') return
    const key = keyOf(item)
    const previous = this.#known.get(key)
    const value = type === 'DELETED' ? undefined : this.#reduce(item)
    if (value === undefined) this.#known.delete(key)
    else this.#known.set(key, value)
    const change = this.#changeOf(previous, value)
    if (change !== undefined) this.#options.changed(change)
  }
}

/** Nodes change with every report of their kubelets; only facts that affect sales count as a change. */
function changeOfNode(before: NodeObject | undefined, after: NodeObject | undefined): 'node' | undefined {
  return JSON.stringify(factsOf(before)) === JSON.stringify(factsOf(after)) ? undefined : 'node'
}

function factsOf(node: NodeObject | undefined) {
  if (node === undefined) return undefined
  const { spec, status, metadata } = node
  return [isReady(node), spec, status?.capacity, status?.allocatable, metadata.labels, metadata.deletionTimestamp]
}

function changeOfPod(before: PodUse | undefined, after: PodUse | undefined): 'node' | 'pod' | undefined {
  if ((after ?? before)?.isOurs === true) return 'pod'
  return (before?.gpus ?? 0) === (after?.gpus ?? 0) ? undefined : 'node'
}

/** undefined: the pod has no resources of a node, since it waits or has ended. */
function useOfPod({ metadata, spec, status }: PodObject, gpuResource: string, tagPrefix: string): PodUse | undefined {
  const node = spec?.nodeName
  if (spec === undefined || node === undefined || status?.phase === 'Succeeded' || status?.phase === 'Failed') {
    return undefined
  }
  const sidecars = spec.initContainers?.filter(({ restartPolicy }) => restartPolicy === 'Always') ?? []
  const amount = (resource: string): number => {
    const requestOf = (one: { resources?: { requests?: Record<string, string> | undefined } | undefined }): number =>
      parseQuantity(one.resources?.requests?.[resource]) ?? 0
    const together = [...spec.containers, ...sidecars].reduce((sum, one) => sum + requestOf(one), 0)
    return Math.max(together, ...(spec.initContainers ?? []).map(requestOf))
  }
  return {
    node,
    isOurs: metadata.annotations?.[TAG_ANNOTATION]?.startsWith(tagPrefix) === true,
    gpuIndexes: readNote(metadata.annotations?.[ORDER_ANNOTATION])?.gpuIndexes ?? [],
    gpus: amount(gpuResource),
    cores: amount('cpu'),
    bytes: amount('memory'),
    diskBytes: amount('ephemeral-storage'),
  }
}

function addUse(use: NodeUse, pod: PodUse): NodeUse {
  if (pod.isOurs) return { ...use, ourGpus: new Set([...use.ourGpus, ...pod.gpuIndexes]) }
  return {
    ...use,
    otherGpus: use.otherGpus + pod.gpus,
    // Pods with GPUs use their own share of the node; the others reduce what is left for all.
    ...(pod.gpus > 0
      ? {}
      : {
          otherCores: use.otherCores + pod.cores,
          otherBytes: use.otherBytes + pod.bytes,
          otherDiskBytes: use.otherDiskBytes + pod.diskBytes,
        }),
  }
}

function keyOf({ metadata }: z.output<typeof rawObject>): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`
}
