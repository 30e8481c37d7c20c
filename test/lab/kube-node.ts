/**
 * A real node of a test cluster: containerd and a kubelet in a network namespace of their own, with images from a real
 * registry. Its GPUs are an extended resource without devices.
 */
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { KubernetesApi } from '../../src/drivers/kubernetes/api.ts'
import { nodeObject, podObject, type NodeObject } from '../../src/drivers/kubernetes/objects.ts'
import { flagsOf, startKubeDaemon, type KubeDaemon } from './kube-daemon.ts'
import type { KubeKeys } from './kube-keys.ts'
import { CNI_FOLDER, execProgram, programAt } from './kube-programs.ts'
import type { NetworkHost } from './host-network.ts'
import { killProcess } from '../harness/leftover.ts'
import type { RegistryLab } from './registry-lab.ts'
import { waitFor } from '../harness/wait.ts'

export interface KubeNode {
  readonly name: string
  readonly address: string
  /** Reads an image from a file, as if it had been pulled. */
  importImage(file: string): Promise<void>
  /** Gives an image on the node another name as well. */
  tagImage(from: string, to: string): Promise<void>
  /** Stops its kubelet; the containers run on. */
  freeze(): void
  thaw(): void
  output(): string
  close(): Promise<void>
}

export interface KubeNodeOptions {
  readonly name: string
  readonly folder: string
  readonly programs: string
  readonly host: NetworkHost
  readonly keys: KubeKeys
  readonly server: string
  readonly registry: RegistryLab
  readonly admin: KubernetesApi
  readonly gpus: number
  readonly product: string
  readonly mark: string
}

const KUBELET_PORT = 10250
const signal = new AbortController().signal

export async function startKubeNode(options: KubeNodeOptions): Promise<KubeNode> {
  const { name, folder, programs, host, keys, admin } = options
  const at = (part: string): string => path.join(folder, part)
  const undo: Array<() => Promise<unknown>> = []
  const close = async (): Promise<void> => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).toReversed()) await step().catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'the node was not taken down in whole')
  }
  try {
    await mkdir(at('cni'), { recursive: true })
    const { registry } = options
    const pause = await registry.push('lab/pause', '1', [registry.busyboxLayer], ['/bin/sleep', '1000000'])
    await writeContainerdFiles(options, `${pause.name}:${pause.tag}`)
    const socket = at('containerd.sock')
    const root = await makeCgroup(options.mark)
    undo.push(() => removeCgroup(root))
    const program = programAt('containerd') ?? ''
    const containerd = startKubeDaemon('containerd', host.netns, [program, '--config', at('containerd.toml')])
    const ctr = (...args: string[]) => execProgram('ctr', ['-a', socket, '-n', 'k8s.io', ...args])
    undo.push(() => endContainers(containerd, ctr, options))
    await containerd.ready(() => ctr('version').then(() => true))
    await writeKubeletFile(options, socket, root)
    const labels = [`nvidia.com/gpu.product=${options.product}`, 'nvidia.com/gpu.memory=81559', 'gpus=simulated']
    const flags = flagsOf({
      config: at('kubelet.json'),
      kubeconfig: await keys.kubeconfig('kubelet', options.server),
      'root-dir': at('kubelet'),
      'hostname-override': name,
      'node-ip': host.address,
      'node-labels': labels.join(','),
    })
    const kubelet = startKubeDaemon('kubelet', host.netns, [path.join(programs, 'kubelet'), ...flags])
    undo.push(() => kubelet.stop())
    const node = () => admin.find(`/api/v1/nodes/${name}`, nodeObject, { signal })
    await kubelet.ready(async () => isReady(await node()))
    await addGpus(admin, name, options.gpus)
    undo.push(() => removeAllPods(admin, kubelet))
    return {
      name,
      address: host.address,
      importImage: async (file) => void (await ctr('images', 'import', file)),
      tagImage: async (from, to) => void (await ctr('images', 'tag', from, to)),
      freeze: () => kubelet.signal('SIGSTOP'),
      thaw: () => kubelet.signal('SIGCONT'),
      output: () => kubelet.output(),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

function isReady(node: NodeObject | undefined): boolean {
  return node?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
}

/** While the kubelet runs: it takes their networks down with them. */
async function removeAllPods(admin: KubernetesApi, kubelet: KubeDaemon): Promise<void> {
  kubelet.signal('SIGCONT')
  await waitFor('the pods of a node to be gone', async () => {
    const { items } = await admin.list('/api/v1/pods', podObject, { signal })
    for (const { metadata } of items) {
      await admin.delete(`/api/v1/namespaces/${metadata.namespace ?? ''}/pods/${metadata.name}`, { signal })
    }
    return items.length === 0
  })
}

/** Without a device plugin: a change of the node's status, as the kubelet would make it. */
async function addGpus(admin: KubernetesApi, name: string, gpus: number): Promise<void> {
  const amounts = { 'nvidia.com/gpu': String(gpus) }
  const body = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    status: { capacity: amounts, allocatable: amounts },
  }
  await admin.apply(`/api/v1/nodes/${name}/status`, body, nodeObject, { signal })
}

async function writeContainerdFiles({ folder, host, registry, mark }: KubeNodeOptions, pause: string): Promise<void> {
  const at = (part: string): string => path.join(folder, part)
  // No container may raise a limit without CAP_SYS_RESOURCE, which build machines lack.
  const wrapper = `#!/bin/sh
f=; prev=
for a in "$@"; do case "$prev" in --bundle|-b) f="$a/config.json";; --process|-p) f="$a";; esac; prev=$a; done
[ -n "$f" ] && [ -f "$f" ] && sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/; s/"rlimits":\\[[^]]*\\]/"rlimits":[]/' "$f"
exec ${programAt('runc') ?? ''} "$@"
`
  await writeFile(at('runc'), wrapper, { mode: 0o755 })
  const network = {
    cniVersion: '1.0.0',
    name: `berth-${mark}`,
    plugins: [
      {
        type: 'bridge',
        bridge: 'pods',
        isGateway: true,
        ipam: {
          type: 'host-local',
          dataDir: at('cni-addresses'),
          ranges: [[{ subnet: host.innerSubnet }]],
          routes: [{ dst: '0.0.0.0/0' }],
        },
      },
    ],
  }
  await writeFile(at('cni/10-pods.conflist'), JSON.stringify(network))
  const registryFolder = at(`registries/${registry.address}`)
  await mkdir(registryFolder, { recursive: true })
  // Without a section of its own a registry is asked over HTTPS.
  const url = `http://${registry.address}`
  const hosts = `server = "${url}"\n[host."${url}"]\n  capabilities = ["pull", "resolve"]\n`
  await writeFile(path.join(registryFolder, 'hosts.toml'), hosts)
  const { stdout: version } = await execProgram('containerd', ['--version'])
  const isNew = /\sv?2\./.test(version)
  const cri = isNew ? 'io.containerd.cri.v1.runtime' : 'io.containerd.grpc.v1.cri'
  const images = isNew ? 'io.containerd.cri.v1.images' : cri
  const lines = [
    `version = ${isNew ? 3 : 2}`,
    `root = '${at('containerd/root')}'`,
    `state = '${at('containerd/state')}'`,
    `[grpc]\n  address = '${at('containerd.sock')}'`,
    `[ttrpc]\n  address = '${at('containerd-ttrpc.sock')}'`,
    `[plugins.'io.containerd.internal.v1.opt']\n  path = '${at('containerd/opt')}'`,
    isNew ? `[plugins.'${images}'.pinned_images]\n  sandbox = '${pause}'` : '',
    `[plugins.'${cri}']`,
    isNew ? '' : `  sandbox_image = '${pause}'`,
    '  restrict_oom_score_adj = true\n  disable_apparmor = true',
    `[plugins.'${images}'.registry]\n  config_path = '${at('registries')}'`,
    `[plugins.'${cri}'.cni]`,
    isNew ? `  bin_dirs = ['${CNI_FOLDER}']` : `  bin_dir = '${CNI_FOLDER}'`,
    `  conf_dir = '${at('cni')}'`,
    `[plugins.'${cri}'.containerd]\n  default_runtime_name = 'runc'`,
    `[plugins.'${cri}'.containerd.runtimes.runc]\n  runtime_type = 'io.containerd.runc.v2'`,
    `[plugins.'${cri}'.containerd.runtimes.runc.options]\n  BinaryName = '${at('runc')}'\n  SystemdCgroup = false`,
  ]
  await writeFile(at('containerd.toml'), lines.join('\n'))
}

async function writeKubeletFile({ folder, host, keys }: KubeNodeOptions, socket: string, root: string): Promise<void> {
  const at = (part: string): string => path.join(folder, part)
  const config = {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address: host.address,
    port: KUBELET_PORT,
    healthzPort: 0,
    readOnlyPort: 0,
    authentication: { anonymous: { enabled: false }, webhook: { enabled: true }, x509: { clientCAFile: keys.ca } },
    authorization: { mode: 'Webhook' },
    tlsCertFile: keys.cert('kubelet'),
    tlsPrivateKeyFile: keys.key('kubelet'),
    containerRuntimeEndpoint: `unix://${socket}`,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${root}`,
    failCgroupV1: false,
    failSwapOn: false,
    localStorageCapacityIsolation: false,
    makeIPTablesUtilChains: false,
    oomScoreAdj: 0,
    nodeStatusUpdateFrequency: '2s',
    nodeLeaseDurationSeconds: 4,
    // Every pod of the tests is small, and its state should show at once.
    syncFrequency: '5s',
    resolvConf: '/etc/resolv.conf',
    podLogsDir: at('pod-logs'),
    volumePluginDir: at('volume-plugins'),
    evictionHard: { 'memory.available': '50Mi', 'nodefs.available': '1%', 'imagefs.available': '1%' },
  }
  await writeFile(at('kubelet.json'), JSON.stringify(config))
}

/** Containers outlive the kubelet and containerd, so they are ended while containerd still runs. */
async function endContainers(
  containerd: KubeDaemon,
  ctr: (...args: string[]) => Promise<{ stdout: string }>,
  { folder, mark }: KubeNodeOptions,
): Promise<void> {
  const listed = await ctr('tasks', 'ls', '-q').catch(() => ({ stdout: '' }))
  for (const id of listed.stdout.split('\n').filter(Boolean)) {
    await ctr('tasks', 'kill', '-s', 'KILL', '-a', id).catch(() => {})
  }
  await containerd.stop()
  await waitFor('the containers of a node to be gone', async () => {
    const shims = await processesOf(folder)
    for (const pid of shims) killProcess(pid)
    return shims.length === 0
  })
  await removeNetworks(mark)
}

const CNI_CACHE = '/var/lib/cni/results'

/** The networks of pods that were not removed in the usual way. */
async function removeNetworks(mark: string): Promise<void> {
  const entries = await readdir(CNI_CACHE).catch(() => [])
  for (const entry of entries.filter((one) => one.startsWith(`berth-${mark}-`))) {
    const text = await readFile(path.join(CNI_CACHE, entry), 'utf8')
    const [, netns] = /"netns":"([^"]+)"/.exec(text) ?? []
    if (netns !== undefined) await execProgram('ip', ['netns', 'del', path.basename(netns)]).catch(() => {})
    await rm(path.join(CNI_CACHE, entry))
  }
}

/** Processes with the folder in their command line, other than zombies. */
async function processesOf(folder: string): Promise<number[]> {
  const found: number[] = []
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) continue
    const command = await readFile(`/proc/${entry}/cmdline`, 'utf8').catch(() => '')
    if (command.includes(`${folder}/`)) found.push(Number(entry))
  }
  return found
}

const CGROUPS = '/sys/fs/cgroup'

/** A cgroup of its own, so that kubelets on one machine do not take each other's pods for leftovers. */
async function makeCgroup(mark: string): Promise<string> {
  const root = `berth-kube-${mark}`
  for (const hierarchy of await hierarchies()) {
    await mkdir(path.join(hierarchy, root), { recursive: true })
    // In version 1 a new set of processors is empty.
    for (const file of ['cpuset.cpus', 'cpuset.mems']) {
      const parent = await readFile(path.join(hierarchy, file), 'utf8').catch(() => '')
      if (parent.trim() !== '') await writeFile(path.join(hierarchy, root, file), parent.trim())
    }
  }
  return root
}

async function removeCgroup(root: string): Promise<void> {
  for (const hierarchy of await hierarchies()) await removeTree(path.join(hierarchy, root))
}

async function removeTree(folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) if (entry.isDirectory()) await removeTree(path.join(folder, entry.name))
  // A process that is being killed keeps its cgroup for a moment.
  await waitFor(`${folder} to be removed`, () =>
    rmdir(folder).then(
      () => true,
      (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
    ),
  )
}

/** Version 1 has a tree for each controller, version 2 has one. */
async function hierarchies(): Promise<string[]> {
  const controllers = await readFile(path.join(CGROUPS, 'cgroup.controllers'), 'utf8').catch(() => undefined)
  if (controllers !== undefined) return [CGROUPS]
  const entries = await readdir(CGROUPS, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map((entry) => path.join(CGROUPS, entry.name))
}
