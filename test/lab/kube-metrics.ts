/**
 * The metrics API of a test cluster, registered with its API server like metrics-server: what the kubelet measures, in
 * the words of `metrics.k8s.io`. Rights are checked by the API server.
 */
import { readFile } from 'node:fs/promises'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { z } from 'zod'
import { anyObject, podObject } from '../../src/drivers/kubernetes/objects.ts'
import type { KubeCluster } from './kube-cluster.ts'
import { waitFor } from '../harness/wait.ts'

const GROUP = 'metrics.k8s.io'
const VERSION = 'v1beta1'
const ROOT = `/apis/${GROUP}/${VERSION}`
const signal = new AbortController().signal

interface Reading {
  readonly at: number
  readonly cpuSeconds: number
  readonly memoryBytes: number
}

/** What the kubelet has counted, by `namespace/pod/container`. */
function readingsOf(text: string): Map<string, Reading> {
  const found = new Map<string, Reading>()
  for (const line of text.split('\n')) {
    const [, name, container, namespace, pod, value, at] =
      /^container_(\w+)\{container="([^"]*)",namespace="([^"]*)",pod="([^"]*)"\} (\S+) (\d+)/.exec(line) ?? []
    const key = `${namespace}/${pod}/${container}`
    const known = found.get(key) ?? { at: 0, cpuSeconds: 0, memoryBytes: 0 }
    if (name === 'cpu_usage_seconds_total') found.set(key, { ...known, at: Number(at), cpuSeconds: Number(value) })
    if (name === 'memory_working_set_bytes') found.set(key, { ...known, memoryBytes: Number(value) })
  }
  return found
}

/** Returns how to stop it. */
export async function startKubeMetrics(cluster: KubeCluster): Promise<() => Promise<void>> {
  const { admin, keys, node, network } = cluster
  const last = new Map<string, Reading>()
  const answer = async (url: URL): Promise<object> => {
    const resources = [{ name: 'pods', kind: 'PodMetrics', namespaced: true, singularName: '', verbs: ['get', 'list'] }]
    if (url.pathname !== `${ROOT}/pods`)
      return { kind: 'APIResourceList', groupVersion: `${GROUP}/${VERSION}`, resources }
    const query = { labelSelector: url.searchParams.get('labelSelector') ?? '' }
    const pods = await admin.list('/api/v1/pods', podObject, { query, signal })
    const wanted = new Set(pods.items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`))
    const text = await textOf(await admin.stream(`/api/v1/nodes/${node.name}/proxy/metrics/resource`, {}, signal))
    const now = readingsOf(text)
    const items = [...now].flatMap(([id, { at, cpuSeconds, memoryBytes }]) => {
      const [namespace = '', name = '', container = ''] = id.split('/')
      const before = last.get(id)
      if (before === undefined || at > before.at) last.set(id, { at, cpuSeconds, memoryBytes })
      // A rate needs two readings.
      if (before === undefined || at <= before.at || !wanted.has(`${namespace}/${name}`)) return []
      const nanoCores = Math.round((1e12 * (cpuSeconds - before.cpuSeconds)) / (at - before.at))
      const usage = { cpu: `${nanoCores}n`, memory: `${Math.floor(memoryBytes / 1_024)}Ki` }
      return [{ metadata: { namespace, name }, containers: [{ name: container, usage }] }]
    })
    return { kind: 'PodMetricsList', apiVersion: `${GROUP}/${VERSION}`, metadata: {}, items }
  }
  const [cert, key] = await Promise.all([keys.cert('server'), keys.key('server')].map((file) => readFile(file)))
  const server = https.createServer({ cert, key }, (request, response) => {
    answer(new URL(request.url ?? '/', 'https://localhost')).then(
      (body) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, network.bridgeAddress, resolve))
  const { port } = server.address() as AddressInfo
  const name = 'metrics'
  await admin.create(
    '/api/v1/namespaces/kube-system/services',
    { metadata: { name }, spec: { ports: [{ name, port: 443, targetPort: port }] } },
    anyObject,
    { signal },
  )
  const slice = {
    metadata: { name, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [network.bridgeAddress], conditions: { ready: true } }],
    ports: [{ name, port }],
  }
  await admin.create('/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices', slice, anyObject, { signal })
  const registered = {
    metadata: { name: `${VERSION}.${GROUP}` },
    spec: {
      group: GROUP,
      version: VERSION,
      groupPriorityMinimum: 100,
      versionPriority: 100,
      insecureSkipTLSVerify: true,
      service: { name, namespace: 'kube-system' },
    },
  }
  const services = '/apis/apiregistration.k8s.io/v1/apiservices'
  await admin.create(services, registered, anyObject, { signal })
  await waitFor('the metrics API', async () => {
    const ready = await admin.get(`${ROOT}/pods`, z.unknown(), { signal }).catch(() => undefined)
    return ready !== undefined
  })
  return async () => {
    await admin.delete(`${services}/${VERSION}.${GROUP}`, { signal })
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}
