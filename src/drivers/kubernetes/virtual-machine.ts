/**
 * Virtual machines with KubeVirt, in clusters whose settings enable them: one VirtualMachine per rental, on the node
 * that the rental has claimed, with its GPUs passed through. The root disk is a copy of an image and is deleted with
 * the machine. Customers log in with SSH, through KubeVirt's own port forwarding.
 */
import type { RentalSpec } from '../../domain/rental.ts'
import type { Program } from '../../contract/agent.ts'
import type { ClusterConfig } from './config.ts'
import { ACCOUNT_LABEL, accountLabel, MANAGED_LABEL, MANAGER, ORDER_ANNOTATION, podNameOf } from './names.ts'
import { TAG_ANNOTATION, type PodAddress } from './names.ts'
import { noteOf } from './order-note.ts'
import { onNode, tolerationsOf } from './pod-spec.ts'

export const VIRTUAL_MACHINES = '/apis/kubevirt.io/v1/virtualmachines'
export const INSTANCES = '/apis/kubevirt.io/v1/virtualmachineinstances'
/** A request with this target port means the SSH server of the machine. */
export const SSH_TARGET = 0
const BYTES_PER_GB = 1_000_000_000

export function virtualMachinePath({ namespace, name }: Pick<PodAddress, 'namespace' | 'name'>): string {
  return `/apis/kubevirt.io/v1/namespaces/${namespace}/virtualmachines/${name}`
}

export function portForwardPath({ namespace, name }: Pick<PodAddress, 'namespace' | 'name'>, port: number): string {
  const instance = `/apis/subresources.kubevirt.io/v1/namespaces/${namespace}/virtualmachineinstances/${name}`
  return `${instance}/portforward/${port}/tcp`
}

export interface VirtualMachineOrder {
  readonly tag: string
  readonly spec: RentalSpec
  readonly accountId: string
  readonly program: Program
  readonly config: ClusterConfig
  readonly settings: NonNullable<ClusterConfig['virtualMachines']>
  readonly namespace: string
  readonly node: string
  /** The public port of the SSH server. undefined: it has none. */
  readonly sshPort: number | undefined
}

export function virtualMachineObjects(order: VirtualMachineOrder) {
  const { tag, spec, accountId, config, settings, namespace, node, sshPort } = order
  const name = podNameOf(tag)
  const labels = { [MANAGED_LABEL]: MANAGER, [ACCOUNT_LABEL]: accountLabel(accountId) }
  const note = {
    ...noteOf(spec),
    ...(sshPort === undefined ? {} : { ssh: { port: sshPort, user: settings.user } }),
  }
  // KubeVirt copies the annotations to the pod of the machine, so its GPUs count as ours. The template has no labels,
  // so the pod does not count as a separate rental.
  const annotations = { [TAG_ANNOTATION]: tag, [ORDER_ANNOTATION]: JSON.stringify(note) }
  const { cpuCount, ramGb } = spec.resources
  const gpus = Array.from({ length: spec.gpuCount }, (_, n) => ({ name: `gpu-${n}`, deviceName: config.gpuResource }))
  return {
    name,
    machine: {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachine',
      metadata: { name, namespace, labels, annotations },
      spec: {
        // A guest that powers off stays off; a guest that crashes is started again.
        runStrategy: 'RerunOnFailure',
        template: {
          metadata: { annotations },
          spec: {
            affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: onNode(node) } },
            tolerations: tolerationsOf(config),
            terminationGracePeriodSeconds: config.graceSeconds,
            // The rental is bound to the node of its GPUs, so KubeVirt must not migrate the guest.
            evictionStrategy: 'None',
            domain: {
              cpu: { cores: Math.max(1, Math.floor(cpuCount)) },
              memory: { guest: String(Math.floor(ramGb * BYTES_PER_GB)) },
              devices: {
                gpus,
                disks: ['root', 'settings'].map((disk) => ({ name: disk, disk: { bus: 'virtio' } })),
                interfaces: [{ name: 'default', masquerade: {} }],
              },
            },
            networks: [{ name: 'default', pod: {} }],
            volumes: [
              { name: 'root', containerDisk: { image: settings.image } },
              { name: 'settings', cloudInitNoCloud: { secretRef: { name } } },
            ],
          },
        },
      },
    },
    secret: {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace, labels },
      type: 'Opaque',
      data: { userdata: Buffer.from(userDataOf(order)).toString('base64') },
    },
  }
}

/** cloud-init reads YAML. JSON is valid YAML and saves us the quoting. */
function userDataOf({ spec, program, settings }: VirtualMachineOrder): string {
  if (program.userData !== null) return program.userData
  const files = program.files.map(({ path, content, mode }) => ({
    path,
    permissions: mode,
    encoding: 'b64',
    content: Buffer.from(content).toString('base64'),
  }))
  const user = { name: settings.user, sudo: 'ALL=(ALL) NOPASSWD:ALL', shell: '/bin/bash' }
  const config = {
    ssh_pwauth: false,
    users: [{ ...user, ssh_authorized_keys: spec.sshKeys }],
    ...(files.length === 0 ? {} : { write_files: files }),
    ...(program.onStart === null ? {} : { runcmd: [['sh', '-c', program.onStart]] }),
  }
  return `#cloud-config\n${JSON.stringify(config)}\n`
}
