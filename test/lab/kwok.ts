/**
 * Simulated nodes on a test cluster, with kwok: their pods become Running as soon as they are scheduled. kwok is built
 * from its Go module and kept beside the programs of Kubernetes; only benches use it.
 */
import { setMaxListeners } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { anyObject, nodeObject, type NodeObject } from '../../src/drivers/kubernetes/objects.ts'
import { cacheFolder } from '../../scripts/cache-folder.ts'
import { buildOnce, go } from './go-build.ts'
import type { KubeCluster } from './kube-cluster.ts'
import { flagsOf, startKubeDaemon, type KubeDaemon } from './kube-daemon.ts'
import { waitFor } from '../harness/wait.ts'

const MODULE = 'sigs.k8s.io/kwok'
const VERSION = 'v0.8.0'
const STAGES = ['node/fast/node-initialize', 'pod/fast/pod-ready', 'pod/fast/pod-complete', 'pod/fast/pod-delete']
const READY_MS = 10 * 60_000
const WIDTH = 16
const MARK = { 'kwok.x-k8s.io/node': 'fake' }
/** Of the nodes, so that a cluster's `nodeSelector` finds them. */
export const simulatedLabel = { type: 'kwok' }
const signal = new AbortController().signal
// Every call listens to it.
setMaxListeners(0, signal)

export async function startKwok(cluster: KubeCluster): Promise<KubeDaemon> {
  const folder = await kwokFolder()
  const flags = flagsOf({
    kubeconfig: cluster.adminFile,
    'manage-all-nodes': 'false',
    'manage-nodes-with-annotation-selector': 'kwok.x-k8s.io/node=fake',
    'node-ip': '10.99.0.1',
    cidr: '10.98.0.0/15',
    'node-lease-duration-seconds': '40',
    config: path.join(folder, 'stages.yaml'),
  })
  return startKubeDaemon('kwok', undefined, [path.join(folder, 'kwok'), ...flags])
}

/** Nodes with eight GPUs each; resolves when all are ready. */
export async function addSimulatedNodes({ admin }: KubeCluster, count: number, product: string): Promise<void> {
  const names = Array.from({ length: count }, (_, n) => `gpu-${String(n).padStart(5, '0')}`)
  const add = async (): Promise<void> => {
    for (let name = names.shift(); name !== undefined; name = names.shift())
      await admin.create('/api/v1/nodes', nodeOf(name, product), anyObject, { signal })
  }
  await Promise.all(Array.from({ length: WIDTH }, add))
  const query = { labelSelector: 'type=kwok' }
  await waitFor(
    `${count} simulated nodes to be ready`,
    async () => {
      const { items } = await admin.list('/api/v1/nodes', nodeObject, { query, signal })
      return items.filter(isUsable).length === count
    },
    READY_MS,
  )
}

/** Ready, and the controllers have taken the taint of a new node away. */
function isUsable({ spec, status }: NodeObject): boolean {
  const isReady = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true
  return isReady && spec?.taints?.some(({ key }) => key.startsWith('node.kubernetes.io/')) !== true
}

function nodeOf(name: string, product: string): object {
  const amounts = {
    cpu: '192',
    memory: '2Ti',
    pods: '110',
    'ephemeral-storage': '7Ti',
    'nvidia.com/gpu': '8',
  }
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      annotations: MARK,
      labels: {
        ...simulatedLabel,
        'kubernetes.io/hostname': name,
        'kubernetes.io/arch': 'amd64',
        'kubernetes.io/os': 'linux',
        'nvidia.com/gpu.product': product,
        'nvidia.com/gpu.count': '8',
        'nvidia.com/gpu.memory': '81559',
      },
    },
    spec: { taints: [{ key: 'nvidia.com/gpu', value: 'present', effect: 'NoSchedule' }] },
    status: { capacity: amounts, allocatable: amounts },
  }
}

/** The program, and one file with its stages. */
async function kwokFolder(): Promise<string> {
  const folder = path.join(cacheFolder(), `kwok-${VERSION}-${process.arch}`)
  await buildOnce(`kwok ${VERSION}`, folder, () => existsSync(path.join(folder, 'kwok')), build)
  return folder
}

async function build(work: string, folder: string): Promise<void> {
  await writeFile(path.join(work, 'go.mod'), 'module berth.test/kwok\n\ngo 1.26.0\n')
  await go(work, ['get', `${MODULE}/cmd/kwok@${VERSION}`])
  const program = path.join(work, 'kwok')
  await go(work, ['build', '-mod=mod', '-trimpath', '-ldflags', '-s -w', '-o', program, `${MODULE}/cmd/kwok`])
  const { Dir } = JSON.parse(await go(work, ['mod', 'download', '-json', `${MODULE}@${VERSION}`])) as { Dir: string }
  const stages = STAGES.map((name) => readFile(path.join(Dir, 'kustomize', 'stage', `${name}.yaml`), 'utf8'))
  await writeFile(path.join(folder, 'stages.yaml'), (await Promise.all(stages)).join('\n---\n'))
  // Last: with it, everything is there.
  await rename(program, path.join(folder, 'kwok'))
}
