/**
 * The namespace of one account: nothing reaches its pods over the network, they reach only DNS and public addresses,
 * and the number of its pods and GPUs is limited. Whether a cluster enforces this depends on its network and admission
 * plugins; `berth operator clusters check` tests it (check.ts).
 */
import { hasStatus, type KubernetesApi } from './api.ts'
import type { ClusterConfig } from './config.ts'
import { deviceQuotaName } from './devices.ts'
import { ACCOUNT_LABEL, accountLabel, MANAGED_LABEL, MANAGER, namespaceOf } from './names.ts'
import { anyObject } from './objects.ts'

/** Private, shared, link-local and reserved ranges: the nodes, other pods, and metadata services of clouds. */
const CLOSED_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
]
const CLOSED_V6 = ['::/127', 'fc00::/7', 'fe80::/10', 'ff00::/8', '64:ff9b::/96']

function namespaceObjects(config: ClusterConfig, accountId: string) {
  const name = namespaceOf(config.namespacePrefix, accountId)
  const labels = { [MANAGED_LABEL]: MANAGER, [ACCOUNT_LABEL]: accountLabel(accountId) }
  const enforce = Object.fromEntries(
    ['enforce', 'audit', 'warn'].map((mode) => [`pod-security.kubernetes.io/${mode}`, config.podSecurity]),
  )
  const dns = { namespaceSelector: {}, podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } } }
  const { pods, gpus } = config.quota
  const allowed = config.serving?.allowedAddresses ?? []
  return {
    name,
    namespace: { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: { ...labels, ...enforce } } },
    policy: {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'berth', namespace: name, labels },
      spec: {
        podSelector: {},
        policyTypes: ['Ingress', 'Egress'],
        ingress: [],
        egress: [
          { to: [dns], ports: [53].flatMap((port) => ['UDP', 'TCP'].map((protocol) => ({ protocol, port }))) },
          { to: [{ ipBlock: { cidr: '0.0.0.0/0', except: CLOSED_V4 } }] },
          { to: [{ ipBlock: { cidr: '::/0', except: CLOSED_V6 } }] },
          ...(allowed.length === 0 ? [] : [{ to: allowed.map((cidr) => ({ ipBlock: { cidr } })) }]),
        ],
      },
    },
    quota: {
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'berth', namespace: name, labels },
      spec: {
        hard: {
          pods: String(pods),
          [config.dra === undefined ? `requests.${config.gpuResource}` : deviceQuotaName(config.dra)]: String(gpus),
          'services.nodeports': '0',
          'services.loadbalancers': '0',
        },
      },
    },
  }
}

/** A namespace counts as complete for this time; the next order after it writes the policy and quota again. */
const TRUSTED_MS = 60_000

/** The namespaces of the tenants of one cluster. */
export class TenantNamespaces {
  readonly #api: KubernetesApi
  readonly #config: ClusterConfig
  readonly #completeAt = new Map<string, number>()

  constructor(api: KubernetesApi, config: ClusterConfig) {
    this.#api = api
    this.#config = config
  }

  /** Returns the name of the account's namespace, once it exists with its policy and quota. */
  async ensure(accountId: string, signal: AbortSignal): Promise<string> {
    const completeAt = this.#completeAt.get(accountId)
    if (completeAt !== undefined && performance.now() - completeAt < TRUSTED_MS) {
      return namespaceOf(this.#config.namespacePrefix, accountId)
    }
    const name = await ensureNamespace(this.#api, this.#config, accountId, signal)
    this.#forgetOld()
    this.#completeAt.set(accountId, performance.now())
    return name
  }

  /** Called when the namespace may be gone. */
  forget(accountId: string): void {
    this.#completeAt.delete(accountId)
  }

  #forgetOld(): void {
    const oldest = performance.now() - TRUSTED_MS
    for (const [accountId, at] of this.#completeAt) if (at < oldest) this.#completeAt.delete(accountId)
  }
}

/** Idempotent. Throws if someone else has a namespace of that name. */
export async function ensureNamespace(
  api: KubernetesApi,
  config: ClusterConfig,
  accountId: string,
  signal: AbortSignal,
): Promise<string> {
  const { name, namespace, policy, quota } = namespaceObjects(config, accountId)
  const path = `/api/v1/namespaces/${name}`
  const { metadata } = await api
    .create('/api/v1/namespaces', namespace, anyObject, { signal })
    .catch(async (error: unknown) => {
      if (!hasStatus(error, 409)) throw error
      return api.get(path, anyObject, { signal })
    })
  if (metadata.labels?.[ACCOUNT_LABEL] !== accountLabel(accountId)) {
    throw new Error(`Namespace ${name} of cluster ${config.name} is not ours.`)
  }
  if (metadata.deletionTimestamp !== undefined) throw new Error(`Namespace ${name} is being deleted.`)
  const isCurrent = Object.entries(namespace.metadata.labels).every(([key, value]) => metadata.labels?.[key] === value)
  await Promise.all([
    ...(isCurrent ? [] : [api.apply(path, namespace, anyObject, { signal })]),
    api.apply(`/apis/networking.k8s.io/v1/namespaces/${name}/networkpolicies/berth`, policy, anyObject, { signal }),
    api.apply(`${path}/resourcequotas/berth`, quota, anyObject, { signal }),
  ])
  return name
}
