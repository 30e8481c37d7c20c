/** One cluster: its API, its view, and the pods that Berth runs there. */
import { parseInstant, type Instant } from '../../base/instant.ts'
import { KubernetesApi } from './api.ts'
import { ClusterView } from './cluster-view.ts'
import type { ClusterConfig } from './config.ts'
import type { ClusterAccess } from './kubeconfig.ts'
import { externalIdOf, machineIdOf, OURS, TAG_ANNOTATION } from './names.ts'
import { isReady } from './node-offer.ts'
import { leaseObject, nodeObject, podObject, versionObject, type NodeObject, type PodObject } from './objects.ts'
import type { NodeReach } from './pod-state.ts'
import { TenantNamespaces } from './tenant-namespace.ts'

export interface ClusterOptions {
  readonly config: ClusterConfig
  readonly access: ClusterAccess
  /** All tags of this installation begin with it. */
  readonly tagPrefix: string
  readonly changed: (what: 'node' | 'pod') => void
  readonly warn: (error: unknown, what: string) => void
}

export interface OurPod {
  readonly pod: PodObject
  readonly tag: string
  readonly externalId: string
}

export class Cluster {
  readonly config: ClusterConfig
  readonly api: KubernetesApi
  readonly view: ClusterView
  readonly namespaces: TenantNamespaces
  readonly tagPrefix: string
  /** When the cached weights were last tidied. undefined: not since the start. */
  tidiedAt: Instant | undefined
  /** When the pods were last listed. undefined: not since the start. */
  listedAt: Instant | undefined

  constructor({ config, access, tagPrefix, changed, warn }: ClusterOptions) {
    this.config = config
    this.tagPrefix = tagPrefix
    this.api = new KubernetesApi(access)
    this.namespaces = new TenantNamespaces(this.api, config)
    this.view = new ClusterView({ api: this.api, config, tagPrefix, changed, warn })
    this.view.start()
  }

  /** The machines of nodes that report. */
  machineIds(): string[] {
    return this.view.readyNodes().map((node) => machineIdOf(this.config.name, node))
  }

  async close(): Promise<void> {
    await this.view.close()
    await this.api.close()
  }

  /** Throws when the cluster does not answer. */
  async version(signal: AbortSignal): Promise<string> {
    return (await this.api.get('/version', versionObject, { signal })).gitVersion
  }

  /** Lists the pods with a Berth tag, of every installation. */
  async pods(signal: AbortSignal): Promise<OurPod[]> {
    const { items } = await this.api.list('/api/v1/pods', podObject, { query: { labelSelector: OURS }, signal })
    return items.flatMap((pod) => this.ourPod(pod) ?? [])
  }

  ourPod(pod: PodObject): OurPod | undefined {
    const { name, namespace = '', annotations } = pod.metadata
    const tag = annotations?.[TAG_ANNOTATION]
    return tag === undefined
      ? undefined
      : { pod, tag, externalId: externalIdOf({ cluster: this.config.name, namespace, name }) }
  }

  /** undefined: there is no such node. */
  async nodeOf(machineId: string, signal: AbortSignal): Promise<NodeObject | undefined> {
    const { nodes } = await this.view.read(signal)
    return nodes.find(({ metadata }) => machineIdOf(this.config.name, metadata.name) === machineId)
  }

  /**
   * Tells whether the kubelets of these nodes report, and when they last did. Asks the cluster, since a watch may be
   * late.
   */
  async reach(names: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, NodeReach>> {
    if (names.length === 0) return new Map()
    const { api } = this
    const { items } = await api.list('/api/v1/nodes', nodeObject, { signal })
    const ready = new Set(items.filter(isReady).map(({ metadata }) => metadata.name))
    const reached = await Promise.all(
      names.map(async (name): Promise<[string, NodeReach]> => {
        if (ready.has(name)) return [name, { isReady: true }]
        // Kubelets renew their lease every ten seconds; the condition of the node is older.
        const lease = await api.find(
          `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${name}`,
          leaseObject,
          {
            signal,
          },
        )
        const renewed = lease?.spec?.renewTime
        const seenAt = renewed === undefined || renewed === null ? undefined : parseInstant(renewed)
        return [name, { isReady: false, seenAt }]
      }),
    )
    return new Map(reached)
  }
}
