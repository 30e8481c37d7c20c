/**
 * The pod of one rental, and the Secret with everything in it that may be secret: variables, files, the start script.
 * The pod is bare, so no controller starts it again elsewhere. It goes to the node that was claimed, through the
 * scheduler, which knows the other pods of the node.
 */
import { isReservedVariable } from '../../contract/workload.ts'
import type { Program } from '../../contract/agent.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import type { ClusterConfig } from './config.ts'
import { claimUse, resourceClaim } from './devices.ts'
import {
  ACCOUNT_LABEL,
  accountLabel,
  CONTAINER,
  MANAGED_LABEL,
  MANAGER,
  ORDER_ANNOTATION,
  podNameOf,
  readExternalId,
  TAG_ANNOTATION,
} from './names.ts'
import { noteOf } from './order-note.ts'
import { weightsContainer, weightsMount, weightsSecret, weightsVolumes, type WeightsOrder } from './weights.ts'

export interface PodOrder {
  readonly tag: string
  readonly spec: RentalSpec
  readonly accountId: string
  readonly program: Program
  readonly config: ClusterConfig
  readonly namespace: string
  readonly node: string
  readonly image: string
  /** The node counts the disk space of pods. */
  readonly limitsDisk: boolean
  /** Lets the pod download its weights. undefined: it has no weights. */
  readonly downloadAs?: string | undefined
  /** The claim with the weights that pods of the node share. undefined: the pod has its own copy. */
  readonly weightsClaim?: string | undefined
}

const BYTES_PER_GB = 1_000_000_000
/** This share of the memory is shared memory, through which multi-GPU training passes data. */
const SHARED_MEMORY_PART = 0.5
const MIN_MEMORY_BYTES = 16 * 1_048_576
const VOLUME_GROUP = 1_000
const START_SCRIPT = '/.berth/on-start'
/**
 * Runs beside the entrypoint and writes into its log. The kubelet may call this again when it restarts, so a mark with
 * the start time of the container keeps the script from running twice. The mark is in the only folder that users of
 * every image can write to; it outlives the container, but not the pod.
 */
const RUN_START_SCRIPT = `
read -r stat </proc/1/stat
set -- \${stat##*) }
mark=/dev/shm/.berth-on-start-\${20}
[ -d "$mark" ] && exit 0
mkdir "$mark" || exit 1
{ sh ${START_SCRIPT} || echo "onStart: exited with code $?"; } >/proc/1/fd/1 2>/proc/1/fd/2 </dev/null &`
/**
 * The start script is a startup probe, not a hook: until a hook has ended, the kubelet does not report that the
 * container runs, so a rental with an image whose `sh` hangs would have its GPUs without being billed. A probe that
 * fails is repeated and never ends the container.
 */
const START_PROBE = {
  exec: { command: ['sh', '-c', RUN_START_SCRIPT] },
  periodSeconds: 2,
  timeoutSeconds: 60,
  failureThreshold: 2_147_483_647,
}

const restartPolicies = { never: 'Never', 'on-failure': 'OnFailure', always: 'Always' } as const

export function secretName(podName: string): string {
  return podName
}

export function pullSecretName(podName: string): string {
  return `${podName}-pull`
}

export function podObjects(order: PodOrder) {
  const { tag, spec, accountId, config, namespace } = order
  const name = podNameOf(tag)
  const labels = { [MANAGED_LABEL]: MANAGER, [ACCOUNT_LABEL]: accountLabel(accountId) }
  const secret = secretOf(order)
  const registry = order.program.registry
  return {
    name,
    pod: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name,
        namespace,
        labels,
        annotations: { [TAG_ANNOTATION]: tag, [ORDER_ANNOTATION]: JSON.stringify(noteOf(spec)) },
      },
      spec: podSpecOf(order, name, secret),
    },
    /** The claim of the GPUs, where the cluster assigns them by claims. It is handled like the secrets. */
    claim:
      hasClaim(order) && config.dra !== undefined
        ? resourceClaim({ name, namespace, labels, tag, spec, dra: config.dra })
        : undefined,
    /** Applied before the pod is created; owned by the pod afterwards. */
    secrets: [
      {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: secretName(name), namespace, labels },
        type: 'Opaque',
        data: secret.data,
      },
      ...(registry === null
        ? []
        : [
            {
              apiVersion: 'v1',
              kind: 'Secret',
              metadata: { name: pullSecretName(name), namespace, labels },
              type: 'kubernetes.io/dockerconfigjson',
              data: {
                '.dockerconfigjson': encode(JSON.stringify({ auths: { [registry.server]: loginOf(registry) } })),
              },
            },
          ]),
    ],
  }
}

function podSpecOf(order: PodOrder, name: string, secret: SecretParts) {
  const { config, spec } = order
  const { registry } = order.program
  const disks = disksOf(spec)
  const weights = weightsOf(order)
  return {
    restartPolicy: restartPolicies[order.program.restart.policy],
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    hostNetwork: false,
    terminationGracePeriodSeconds: config.graceSeconds,
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: onNode(order.node) } },
    tolerations: tolerationsOf(config),
    securityContext: {
      seccompProfile: { type: 'RuntimeDefault' },
      // With this group, programs of any user in the container can write to its volumes, if the storage supports
      // groups.
      ...(disks.length === 0 && weights?.claim === undefined
        ? {}
        : { fsGroup: VOLUME_GROUP, fsGroupChangePolicy: 'OnRootMismatch' }),
    },
    ...(config.runtimeClass === undefined ? {} : { runtimeClassName: config.runtimeClass }),
    ...(registry === null ? {} : { imagePullSecrets: [{ name: pullSecretName(name) }] }),
    ...(hasClaim(order) ? claimUse(name).ofPod : {}),
    ...(weights === undefined
      ? {}
      : {
          initContainers: [
            weightsContainer(weights, {
              resources: { requests: amountsOf(order), limits: amountsOf(order) },
              securityContext: securityOf(config),
              isRestricted: config.podSecurity === 'restricted',
            }),
          ],
        }),
    containers: [containerOf(order, name)],
    volumes: [
      {
        name: 'shm',
        emptyDir: { medium: 'Memory', sizeLimit: String(sharedMemoryBytes(order)) },
      },
      ...(Object.keys(secret.mounts).length === 0
        ? []
        : [{ name: 'files', secret: { secretName: secretName(name), items: Object.values(secret.mounts) } }]),
      ...disks.map(({ claimName, readOnly }, n) => ({
        name: `volume-${n}`,
        persistentVolumeClaim: { claimName, readOnly },
      })),
      ...(weights === undefined ? [] : weightsVolumes(weights)),
    ],
  }
}

function hasClaim({ spec, config }: PodOrder): boolean {
  return config.dra !== undefined && spec.gpuCount > 0
}

/** Selects the node by a field, as a DaemonSet does, since no label can imitate it. */
export function onNode(node: string) {
  return { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }] }
}

/**
 * Tolerates the taint of GPU nodes. Pods of a lost node stay there: their disk is there, and a pod elsewhere would be
 * another machine.
 */
export function tolerationsOf({ gpuResource }: ClusterConfig) {
  return [
    { key: gpuResource, operator: 'Exists' },
    { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute' },
    { key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute' },
  ]
}

function containerOf(order: PodOrder, podName: string) {
  const { program, spec, config } = order
  const { mounts, variables } = secretOf(order)
  const weights = weightsOf(order)
  const amounts = {
    ...amountsOf(order),
    ...(spec.gpuCount === 0 || config.dra !== undefined ? {} : { [config.gpuResource]: String(spec.gpuCount) }),
  }
  const ownVariables = [
    { name: 'BERTH_GPUS', value: spec.nodes.flatMap(({ gpuIndexes }) => gpuIndexes).join(',') },
    ...(config.simulatedGpus ? [{ name: 'BERTH_SIMULATED_GPUS', value: 'true' }] : []),
    // Otherwise an image could request all GPUs of the node.
    ...(spec.gpuCount === 0 ? [{ name: 'NVIDIA_VISIBLE_DEVICES', value: 'void' }] : []),
  ]
  return {
    name: CONTAINER,
    image: order.image,
    // Our own image is not secret, and may have been loaded into the node without a registry.
    imagePullPolicy: order.image === config.serving?.engineImage ? 'IfNotPresent' : config.images.pullPolicy,
    ...(program.command === null ? {} : { command: program.command.map(literal) }),
    ...(program.args === null ? {} : { args: program.args.map(literal) }),
    env: [
      ...variables.map(({ name, key }) => ({ name, valueFrom: { secretKeyRef: { name: secretName(podName), key } } })),
      ...ownVariables,
    ],
    resources: { requests: amounts, limits: amounts, ...(hasClaim(order) ? claimUse(podName).ofContainer : {}) },
    securityContext: securityOf(config),
    ...(program.onStart === null ? {} : { startupProbe: START_PROBE }),
    // With an input, an image whose command is a shell keeps running, as on hosts.
    stdin: true,
    tty: true,
    volumeMounts: [
      { name: 'shm', mountPath: '/dev/shm' },
      ...Object.entries(mounts).map(([mountPath, { path }]) => ({
        name: 'files',
        mountPath,
        subPath: path,
        readOnly: true,
      })),
      ...disksOf(spec).map(({ path, readOnly }, n) => ({ name: `volume-${n}`, mountPath: path, readOnly })),
      ...(weights === undefined ? [] : [weightsMount(weights)]),
    ],
  }
}

/** The requests and limits besides the GPUs. */
function amountsOf({ spec, limitsDisk }: PodOrder) {
  const { cpuCount, ramGb, storageGb } = spec.resources
  return {
    cpu: String(cpuCount),
    memory: String(Math.max(MIN_MEMORY_BYTES, Math.floor(ramGb * BYTES_PER_GB))),
    ...(limitsDisk ? { 'ephemeral-storage': String(Math.floor(storageGb * BYTES_PER_GB)) } : {}),
  }
}

function securityOf({ podSecurity }: ClusterConfig) {
  const isRestricted = podSecurity === 'restricted'
  return {
    allowPrivilegeEscalation: !isRestricted,
    privileged: false,
    ...(isRestricted ? { runAsNonRoot: true } : {}),
    capabilities: { drop: isRestricted ? ['ALL'] : ['NET_RAW', 'MKNOD'] },
  }
}

function weightsOf({ tag, program, config, downloadAs, weightsClaim }: PodOrder): WeightsOrder | undefined {
  const { weights } = program
  if (weights === undefined) return undefined
  // Orders with weights are not placed on clusters that cannot download them (`traits.downloads`).
  if (config.serving === undefined || downloadAs === undefined) throw new Error(`${tag} cannot download its weights.`)
  const { serving } = config
  return {
    tag,
    secretName: secretName(podNameOf(tag)),
    weights,
    serving,
    authorization: downloadAs,
    claim: weightsClaim,
  }
}

/** Returns the volumes of an order, by the names of their claims. */
function disksOf({ disks = [] }: RentalSpec): Array<{ claimName: string; path: string; readOnly: boolean }> {
  return disks.map(({ volumeId, path, readOnly }) => {
    const claimName = readExternalId(volumeId)?.name
    if (claimName === undefined || path === null) throw new Error(`Volume ${volumeId} cannot be mounted.`)
    return { claimName, path, readOnly }
  })
}

function sharedMemoryBytes({ program, spec }: PodOrder): number {
  const gb = program.shmGb ?? spec.resources.ramGb * SHARED_MEMORY_PART
  return Math.max(MIN_MEMORY_BYTES, Math.floor(gb * BYTES_PER_GB))
}

interface SecretParts {
  /** The contents, in base64. */
  readonly data: Readonly<Record<string, string>>
  readonly variables: ReadonlyArray<{ readonly name: string; readonly key: string }>
  /** The keys are paths in the container. */
  readonly mounts: Readonly<Record<string, { readonly key: string; readonly path: string; readonly mode: number }>>
}

function secretOf(order: PodOrder): SecretParts {
  const { program } = order
  const data: Record<string, string> = {}
  const mounts: Record<string, { key: string; path: string; mode: number }> = {}
  const variables = Object.entries(program.env)
    .filter(([name]) => !isReservedVariable(name))
    .map(([name, value]) => {
      const key = `env.${name}`
      data[key] = encode(value)
      return { name, key }
    })
  const addFile = (at: string, key: string, content: string, mode: number): void => {
    data[key] = encode(content)
    mounts[at] = { key, path: key, mode }
  }
  for (const [n, { path, content, mode }] of program.files.entries()) {
    addFile(path, `file.${n}`, content, Number.parseInt(mode, 8))
  }
  const weights = weightsOf(order)
  for (const [key, text] of Object.entries(weights === undefined ? {} : weightsSecret(weights)))
    data[key] = encode(text)
  if (program.onStart !== null) addFile(START_SCRIPT, 'on-start', program.onStart, 0o444)
  return { data, variables, mounts }
}

function loginOf({ username, password }: { username: string; password: string }) {
  return { username, password, auth: encode(`${username}:${password}`) }
}

/** Escapes `$`: Kubernetes replaces `$(NAME)` in commands, and turns `$$` into `$`. */
function literal(text: string): string {
  return text.replaceAll('$', '$$$$')
}

function encode(text: string): string {
  return Buffer.from(text).toString('base64')
}
