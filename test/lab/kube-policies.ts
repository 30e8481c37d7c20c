/**
 * Enforces NetworkPolicies on the node of a test cluster, whose network plugin does not: the policies of all namespaces
 * become rules of nftables. It knows as much of the API as Berth's policies use, and fails on everything else.
 */
import { z } from 'zod'
import type { KubernetesApi } from '../../src/drivers/kubernetes/api.ts'
import type { NetworkHost } from './host-network.ts'
import { execProgram } from './kube-programs.ts'

const EVERY_MS = 200
const TABLE = 'inet policies'
const signal = new AbortController().signal

const labels = z.record(z.string(), z.string())
const selector = z.strictObject({ matchLabels: labels.default({}) })
const peer = z.strictObject({
  podSelector: selector.optional(),
  namespaceSelector: selector.optional(),
  ipBlock: z.strictObject({ cidr: z.string(), except: z.array(z.string()).default([]) }).optional(),
})
const port = z.strictObject({
  protocol: z.enum(['TCP', 'UDP']).default('TCP'),
  port: z.number(),
  endPort: z.number().optional(),
})
const ports = z.array(port).default([])
const policyObject = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string() }),
  spec: z.strictObject({
    podSelector: selector,
    policyTypes: z.array(z.enum(['Ingress', 'Egress'])),
    ingress: z.array(z.strictObject({ from: z.array(peer).default([]), ports })).default([]),
    egress: z.array(z.strictObject({ to: z.array(peer).default([]), ports })).default([]),
  }),
})
const namespaceObject = z.object({ metadata: z.object({ name: z.string(), labels: labels.default({}) }) })
const podObject = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string(), labels: labels.default({}) }),
  spec: z.object({ hostNetwork: z.boolean().default(false) }),
  status: z.object({ podIP: z.string().optional() }).optional(),
})

type Policy = z.output<typeof policyObject>
type Peer = z.output<typeof peer>
type Port = z.output<typeof port>

type Labels = Readonly<Record<string, string>>

interface Pod {
  readonly namespace: string
  readonly labels: Labels
  readonly address: string
}

export interface PolicyEnforcer {
  /** Throws if a policy could not be enforced. */
  stop(): Promise<void>
}

export async function enforcePolicies(admin: KubernetesApi, host: NetworkHost): Promise<PolicyEnforcer> {
  const inNetwork = async (args: readonly string[], input = ''): Promise<void> => {
    const ending = execProgram('nsenter', [`--net=/run/netns/${host.netns}`, ...args])
    // A program that has already ended reads nothing; its exit code says why.
    ending.child.stdin?.on('error', () => {}).end(input)
    await ending
  }
  // Pods of one node share a bridge, and what stays on it passes no rules otherwise.
  await inNetwork(['sh', '-c', 'echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables'])
  let current = ''
  const enforce = async (): Promise<void> => {
    const wanted = await readRules(admin)
    if (wanted !== current) await inNetwork(['nft', '-f', '-'], wanted)
    current = wanted
  }
  await enforce()
  let failure: unknown
  let enforcing: Promise<void> | undefined
  const timer = setInterval(() => {
    // The API server may be away for a moment; tests do that.
    enforcing ??= enforce()
      .then(
        () => (failure = undefined),
        (error: unknown) => (failure = error),
      )
      .then(() => (enforcing = undefined))
  }, EVERY_MS)
  return {
    stop: async () => {
      clearInterval(timer)
      await enforcing
      await inNetwork(['nft', 'delete', 'table', ...TABLE.split(' ')])
      if (failure !== undefined) throw failure
    },
  }
}

async function readRules(admin: KubernetesApi): Promise<string> {
  const { items: policies } = await admin.list('/apis/networking.k8s.io/v1/networkpolicies', policyObject, { signal })
  const { items: namespaces } = await admin.list('/api/v1/namespaces', namespaceObject, { signal })
  const { items } = await admin.list('/api/v1/pods', podObject, { signal })
  const pods = items.flatMap(({ metadata, spec, status }): Pod[] => {
    const { namespace, labels } = metadata
    return status?.podIP === undefined || spec.hostNetwork ? [] : [{ namespace, labels, address: status.podIP }]
  })
  const labelsOf = new Map(namespaces.map(({ metadata }) => [metadata.name, metadata.labels]))
  return rulesOf(policies, pods, labelsOf)
}

/** As a file of nft that replaces the whole table. */
function rulesOf(policies: readonly Policy[], pods: readonly Pod[], namespaces: ReadonlyMap<string, Labels>): string {
  const chains: string[] = []
  const closed = { Egress: new Map<string, string>(), Ingress: new Map<string, string>() }
  for (const pod of pods) {
    for (const type of ['Egress', 'Ingress'] as const) {
      const own = policies.filter(
        ({ metadata, spec }) =>
          metadata.namespace === pod.namespace &&
          spec.policyTypes.includes(type) &&
          hasLabels(pod.labels, spec.podSelector.matchLabels),
      )
      // Without a policy of this type everything is open.
      if (own.length === 0) continue
      const name = `${type.toLowerCase()}_${pod.address.replaceAll('.', '_')}`
      const accepted = own.flatMap(({ metadata, spec }) => {
        const select = (one: Peer): string[] => selectedPods(one, metadata.namespace, pods, namespaces)
        return type === 'Egress'
          ? spec.egress.flatMap((rule) => matches('ip daddr', rule.to, rule.ports, select))
          : spec.ingress.flatMap((rule) => matches('ip saddr', rule.from, rule.ports, select))
      })
      chains.push(`chain ${name} {\n${accepted.map((match) => `  ${match} return\n`).join('')}  drop\n}`)
      closed[type].set(pod.address, name)
    }
  }
  const jumps = ([ip, by]: readonly [string, ReadonlyMap<string, string>]): string[] =>
    by.size === 0 ? [] : [`${ip} vmap { ${[...by].map(([address, name]) => `${address} : jump ${name}`).join(', ')} }`]
  const forward = (
    [
      ['ip saddr', closed.Egress],
      ['ip daddr', closed.Ingress],
    ] as const
  ).flatMap(jumps)
  const hook = 'type filter hook forward priority filter; policy accept;'
  const lines = [hook, 'ct state established,related accept', ...forward]
  chains.push(`chain forward {\n${lines.map((line) => `  ${line}\n`).join('')}}`)
  return `table ${TABLE}\ndelete table ${TABLE}\ntable ${TABLE} {\n${chains.join('\n')}\n}\n`
}

/** What a rule lets through, as matches of nft: no peers or no ports are all of them. */
function matches(
  ip: 'ip daddr' | 'ip saddr',
  peers: readonly Peer[],
  ports: readonly Port[],
  select: (peer: Peer) => readonly string[],
): string[] {
  const addresses = peers.length === 0 ? [''] : peers.flatMap((one) => addressMatch(ip, one, select))
  const numbers = ports.map(
    ({ protocol, port, endPort }) =>
      `${protocol.toLowerCase()} dport ${port}${endPort === undefined ? '' : `-${endPort}`}`,
  )
  return addresses.flatMap((address) => (numbers.length === 0 ? [''] : numbers).map((number) => `${address} ${number}`))
}

function addressMatch(ip: string, one: Peer, select: (peer: Peer) => readonly string[]): string[] {
  if (one.ipBlock === undefined) {
    const selected = select(one)
    return selected.length === 0 ? [] : [`${ip} { ${selected.join(', ')} }`]
  }
  const { cidr, except } = one.ipBlock
  // These pods have no IPv6.
  if (cidr.includes(':')) return []
  return [`${ip} ${cidr}${except.length === 0 ? '' : ` ${ip} != { ${except.join(', ')} }`}`]
}

/** Without a selector of namespaces, pods of the policy's own namespace. */
function selectedPods(
  { podSelector, namespaceSelector }: Peer,
  own: string,
  pods: readonly Pod[],
  namespaces: ReadonlyMap<string, Labels>,
): string[] {
  return pods
    .filter(({ namespace, labels }) => {
      const isInNamespace =
        namespaceSelector === undefined
          ? namespace === own
          : hasLabels(namespaces.get(namespace) ?? {}, namespaceSelector.matchLabels)
      return isInNamespace && hasLabels(labels, podSelector?.matchLabels ?? {})
    })
    .map(({ address }) => address)
}

function hasLabels(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([name, value]) => labels[name] === value)
}
