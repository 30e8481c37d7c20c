/**
 * A real Kubernetes cluster on this machine: etcd, API server, scheduler, controllers, and one node (kube-node.ts). What
 * Berth may do there is what deploy/kubernetes/role.yaml grants.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { hasStatus, KubernetesApi } from '../../src/drivers/kubernetes/api.ts'
import { readKubeconfig } from '../../src/drivers/kubernetes/kubeconfig.ts'
import { anyObject } from '../../src/drivers/kubernetes/objects.ts'
import { unmountAndRemove } from './docker-lab.ts'
import { startHostNetwork, type HostNetwork } from './host-network.ts'
import { flagsOf, startKubeDaemon } from './kube-daemon.ts'
import { kubeconfigOf, makeKubeKeys, type KubeKeys } from './kube-keys.ts'
import { startKubeNode, type KubeNode } from './kube-node.ts'
import { startKubeProxy } from './kube-proxy.ts'
import { enforcePolicies } from './kube-policies.ts'
import { kubePrograms, programAt } from './kube-programs.ts'
import { ownPorts } from '../harness/own-port.ts'
import { startRegistryLab, type RegistryLab } from './registry-lab.ts'
import { waitFor } from '../harness/wait.ts'

export interface KubeCluster {
  /** URL of the API server. */
  readonly server: string
  readonly folder: string
  readonly keys: KubeKeys
  /** Everything is allowed to it. */
  readonly admin: KubernetesApi
  /** The same as a kubeconfig. */
  readonly adminFile: string
  readonly node: KubeNode
  readonly network: HostNetwork
  readonly registry: RegistryLab
  /** A kubeconfig with a token of Berth's service account in a file. */
  berthConfig(options?: { server?: string }): Promise<{ kubeconfig: string; tokenFile: string }>
  newToken(): Promise<string>
  /** From now on; without it, the network stores NetworkPolicies and does not enforce them. */
  enforcePolicies(): Promise<void>
  close(): Promise<void>
}

export const GPU_PRODUCT = 'NVIDIA-H100-80GB-HBM3'
const GPUS = 4
const SERVICE_SUBNET = '10.96.0.0/16'
/** Where pods find the API server. */
const API_SERVICE = '10.96.0.1'
const signal = new AbortController().signal
const tokenReply = z.object({ status: z.object({ token: z.string() }) })

export interface KubeClusterOptions {
  /** Addresses of Services lead to their pods: a kube-proxy runs on the node. */
  readonly hasServices?: true
  /** After how long a silent node counts as lost. */
  readonly nodeGraceSeconds?: number
}

export async function startKubeCluster(options: KubeClusterOptions = {}): Promise<KubeCluster> {
  const programs = await kubePrograms()
  const undo: Array<() => Promise<unknown>> = []
  const close = async (): Promise<void> => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).toReversed()) await step().catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'the cluster was not taken down in whole')
  }
  try {
    const mark = randomBytes(3).toString('hex')
    const network = await startHostNetwork()
    undo.push(() => network.close())
    const registry = await startRegistryLab(network.bridgeAddress)
    undo.push(() => registry.close())
    const host = await network.addHost('kube')
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-kube-'))
    undo.push(() => unmountAndRemove(folder))
    const name = `node-${mark}`
    const addresses = [network.bridgeAddress, host.address, API_SERVICE]
    const keys = await makeKubeKeys(path.join(folder, 'keys'), addresses, name)
    const ports = ownPorts(5)
    const server = `https://${network.bridgeAddress}:${ports}`
    const adminFile = await keys.kubeconfig('admin', server)
    const admin = new KubernetesApi(await readKubeconfig(adminFile))
    undo.push(() => admin.close())
    const address = network.bridgeAddress
    const { nodeGraceSeconds = 10 } = options
    await startControlPlane({ programs, folder, keys, server, ports, address, admin, undo, nodeGraceSeconds })
    await applyFile(admin, 'deploy/kubernetes/role.yaml')
    await applyFile(admin, 'deploy/kubernetes/policy.yaml')
    await addStorageClasses(admin)
    undo.push(() => removeStorage(admin))
    await mkdir(path.join(folder, 'node'))
    const node = await startKubeNode({
      name,
      folder: path.join(folder, 'node'),
      programs,
      host,
      keys,
      server,
      registry,
      admin,
      gpus: GPUS,
      product: GPU_PRODUCT,
      mark,
    })
    undo.push(() => node.close())
    if (options.hasServices === true) {
      const proxy = await startKubeProxy({ programs, keys, server, host, name })
      undo.push(() => proxy.stop())
    }
    const newToken = async (): Promise<string> => {
      const path = '/api/v1/namespaces/berth/serviceaccounts/berth/token'
      const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
      return (await admin.create(path, body, tokenReply, { signal })).status.token
    }
    let configs = 0
    return {
      server,
      folder,
      keys,
      admin,
      adminFile,
      node,
      network,
      registry,
      newToken,
      enforcePolicies: async () => {
        const enforcer = await enforcePolicies(admin, host)
        undo.push(() => enforcer.stop())
      },
      berthConfig: async (options = {}) => {
        const stem = path.join(folder, `berth-${(configs += 1)}`)
        const tokenFile = `${stem}.token`
        await writeFile(tokenFile, await newToken(), { mode: 0o600 })
        const config = kubeconfigOf(options.server ?? server, keys.ca, { tokenFile })
        await writeFile(`${stem}.kubeconfig`, JSON.stringify(config))
        return { kubeconfig: `${stem}.kubeconfig`, tokenFile }
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

const storageObject = z.object({ spec: z.object({ hostPath: z.object({ path: z.string() }).optional() }) })

/** The folders of volumes that a test has left. */
async function removeStorage(admin: KubernetesApi): Promise<void> {
  const { items } = await admin.list('/api/v1/persistentvolumes', storageObject, { signal })
  for (const { spec } of items)
    if (spec.hostPath !== undefined) await rm(spec.hostPath.path, { recursive: true, force: true })
}

/** `now` creates storage at once and lets it grow, `late` only for a pod. */
export const storageClasses = { now: 'lab-now', late: 'lab-late' } as const

async function addStorageClasses(admin: KubernetesApi): Promise<void> {
  for (const name of Object.values(storageClasses)) {
    const isLate = name === storageClasses.late
    const body = {
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: { name },
      provisioner: 'kubernetes.io/host-path',
      volumeBindingMode: isLate ? 'WaitForFirstConsumer' : 'Immediate',
      allowVolumeExpansion: !isLate,
    }
    await admin.create('/apis/storage.k8s.io/v1/storageclasses', body, anyObject, { signal })
  }
}

interface ControlPlane {
  readonly programs: string
  readonly folder: string
  readonly keys: KubeKeys
  readonly server: string
  readonly ports: number
  readonly address: string
  readonly admin: KubernetesApi
  readonly undo: Array<() => Promise<unknown>>
  readonly nodeGraceSeconds: number
}

async function startControlPlane(plane: ControlPlane): Promise<void> {
  const { programs, folder, keys, server, ports, address, admin, undo } = plane
  const run = (name: string, ...command: string[]) => {
    const daemon = startKubeDaemon(name, undefined, command)
    undo.push(() => daemon.stop())
    return daemon
  }
  const etcdUrl = `http://127.0.0.1:${ports + 1}`
  const peerUrl = `http://127.0.0.1:${ports + 2}`
  const etcdFlags = flagsOf({
    name: 'lab',
    'data-dir': path.join(folder, 'etcd'),
    'unsafe-no-fsync': 'true',
    'listen-client-urls': etcdUrl,
    'advertise-client-urls': etcdUrl,
    'listen-peer-urls': peerUrl,
    'initial-advertise-peer-urls': peerUrl,
    'initial-cluster': `lab=${peerUrl}`,
  })
  const etcd = run('etcd', programAt('etcd') ?? '', ...etcdFlags)
  await etcd.ready(async () => (await fetch(`${etcdUrl}/health`)).ok)
  const apiFlags = flagsOf({
    'etcd-servers': etcdUrl,
    'bind-address': address,
    'secure-port': String(ports),
    'tls-cert-file': keys.cert('server'),
    'tls-private-key-file': keys.key('server'),
    'client-ca-file': keys.ca,
    'authorization-mode': 'Node,RBAC',
    'anonymous-auth': 'false',
    'enable-admission-plugins': 'NodeRestriction',
    // Extensions are reached without a proxy for Services.
    'enable-aggregator-routing': 'true',
    profiling: 'false',
    'service-cluster-ip-range': SERVICE_SUBNET,
    'advertise-address': address,
    'service-account-issuer': 'https://kubernetes.default.svc',
    'service-account-key-file': path.join(keys.folder, 'accounts.pub'),
    'service-account-signing-key-file': keys.key('accounts'),
    'kubelet-client-certificate': keys.cert('admin'),
    'kubelet-client-key': keys.key('admin'),
    'kubelet-preferred-address-types': 'InternalIP',
  })
  const api = run('kube-apiserver', path.join(programs, 'kube-apiserver'), ...apiFlags)
  await api.ready(async () => (await admin.stream('/readyz', {}, signal)).resume() !== undefined)
  const as = async (name: string, port: number): Promise<Record<string, string>> => {
    const file = await keys.kubeconfig(name, server)
    return {
      kubeconfig: file,
      'authentication-kubeconfig': file,
      'authorization-kubeconfig': file,
      'leader-elect': 'false',
      'bind-address': '127.0.0.1',
      'secure-port': String(port),
      // As clusters of a thousand nodes have it: by default, the controllers make 20 calls a second.
      'kube-api-qps': '1000',
      'kube-api-burst': '2000',
    }
  }
  const scheduler = path.join(programs, 'kube-scheduler')
  run('kube-scheduler', scheduler, ...flagsOf(await as('scheduler', ports + 3)))
  const controllerFlags = flagsOf({
    ...(await as('controllers', ports + 4)),
    'use-service-account-credentials': 'true',
    'service-account-private-key-file': keys.key('accounts'),
    'root-ca-file': keys.ca,
    // Volumes are folders in /tmp, made and removed by the controllers themselves.
    'enable-hostpath-provisioner': 'true',
    // A lost node is noticed in seconds, not in a minute.
    'node-monitor-period': '1s',
    'node-monitor-grace-period': `${plane.nodeGraceSeconds}s`,
  })
  run('kube-controller-manager', path.join(programs, 'kube-controller-manager'), ...controllerFlags)
  await waitFor('the controllers of the cluster', () =>
    admin.find('/api/v1/namespaces/default/serviceaccounts/default', anyObject, { signal }),
  )
}

const plurals: Readonly<Record<string, string>> = {
  Namespace: '/api/v1/namespaces',
  ServiceAccount: '/api/v1/namespaces/{namespace}/serviceaccounts',
  ClusterRole: '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  ClusterRoleBinding: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  Role: '/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles',
  RoleBinding: '/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings',
  ValidatingAdmissionPolicy: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
  ValidatingAdmissionPolicyBinding: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
}
const manifest = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
})

/** As `kubectl apply -f` would do it. */
async function applyFile(admin: KubernetesApi, file: string): Promise<void> {
  for (const document of parseAllDocuments(await readFile(file, 'utf8'))) {
    const object = manifest.parse(document.toJS())
    const path = plurals[object.kind]?.replace('{namespace}', object.metadata.namespace ?? 'default')
    if (path === undefined) throw new Error(`${file} has the unknown kind ${object.kind}`)
    await admin.create(path, object, anyObject, { signal }).catch((error: unknown) => {
      if (!hasStatus(error, 409)) throw error
    })
  }
}
