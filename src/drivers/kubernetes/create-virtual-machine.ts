/** Creates the virtual machine of a rental, as `create.ts` does for pods. */
import { setTimeout as pause } from 'node:timers/promises'
import type { RentalSpec } from '../../domain/rental.ts'
import { openPortsOf } from '../../domain/workload.ts'
import type { CreateOutcome } from '../driver.ts'
import { hasStatus } from './api.ts'
import type { Cluster } from './cluster.ts'
import { refusalOf, refused, type Refusal } from './create.ts'
import { externalIdOf, TAG_ANNOTATION, type PodAddress } from './names.ts'
import { anyObject, virtualMachineObject } from './objects.ts'
import { SSH_TARGET, virtualMachineObjects, virtualMachinePath } from './virtual-machine.ts'
import type { KubernetesWorld } from './world.ts'

const NO_ROOM_MS = 2_000
const SCHEDULED_MS = 10_000
const POLL_MS = 500

export async function createVirtualMachine(
  cluster: Cluster,
  tag: string,
  spec: RentalSpec,
  world: KubernetesWorld,
  signal: AbortSignal,
): Promise<CreateOutcome> {
  const { api, config } = cluster
  const settings = config.virtualMachines
  const [claim] = spec.nodes
  if (settings === undefined || spec.kind !== 'virtual-machine' || claim === undefined || spec.nodes.length !== 1) {
    return refused('wrong_kind', 'This cluster runs virtual machines on one node only.')
  }
  const order = await world.orderOf(tag)
  if (order === undefined) throw new Error(`There is no order with the tag ${tag}.`)
  const node = await cluster.nodeOf(claim.machineId, signal)
  if (node === undefined) return refused('no_capacity', `Node ${claim.machineId} has left the cluster.`)
  const namespace = await cluster.namespaces.ensure(order.accountId, signal)
  const ports = await world.openPorts(tag, [SSH_TARGET, ...openPortsOf(spec)])
  const sshPort = ports.get(SSH_TARGET)
  const parts = { tag, spec, ...order, config, settings, namespace, node: node.metadata.name, sshPort }
  const { name, machine, secret } = virtualMachineObjects(parts)
  const address: PodAddress = { cluster: config.name, namespace, name }
  const applySecret = (owner: object) => {
    const body = { ...secret, metadata: { ...secret.metadata, ...owner } }
    return api.apply(`/api/v1/namespaces/${namespace}/secrets/${name}`, body, anyObject, { signal })
  }
  await applySecret({})
  const uid = await post(cluster, address, tag, machine, signal)
  if (typeof uid !== 'string') {
    await api.delete(`/api/v1/namespaces/${namespace}/secrets/${name}`, { signal })
    return uid
  }
  const { apiVersion, kind } = machine
  await applySecret({ ownerReferences: [{ apiVersion, kind, name, uid }] })
  const noRoom = await waitForRoom(cluster, address, signal)
  return noRoom ?? { kind: 'created', externalId: externalIdOf(address) }
}

/** Returns the uid of the object, also if an earlier call created it. */
async function post(
  { api }: Cluster,
  address: PodAddress,
  tag: string,
  machine: object,
  signal: AbortSignal,
): Promise<string | Refusal> {
  const path = `/apis/kubevirt.io/v1/namespaces/${address.namespace}/virtualmachines`
  const created = await api.create(path, machine, anyObject, { signal }).catch((error: unknown) => {
    if (hasStatus(error, 409)) return undefined
    const refusal = refusalOf(error)
    if (refusal === undefined) throw error
    return refusal
  })
  if (created !== undefined && 'kind' in created) return created
  const { metadata } = created ?? (await api.get(virtualMachinePath(address), anyObject, { signal }))
  if (metadata.annotations?.[TAG_ANNOTATION] !== tag) throw new Error(`${address.name} is not ours.`)
  if (metadata.deletionTimestamp !== undefined) throw new Error(`${address.name} is still being removed.`)
  return metadata.uid ?? ''
}

/** Returns a refusal if the scheduler finds no room on the node. */
async function waitForRoom({ api }: Cluster, address: PodAddress, signal: AbortSignal): Promise<Refusal | undefined> {
  const started = performance.now()
  let fullSince: number | undefined
  while (performance.now() - started < SCHEDULED_MS) {
    const machine = await api.find(virtualMachinePath(address), virtualMachineObject, { signal })
    const printed = machine?.status?.printableStatus
    if (machine === undefined || printed === 'Running' || printed === 'Starting') return undefined
    fullSince = printed === 'ErrorUnschedulable' ? (fullSince ?? performance.now()) : undefined
    if (fullSince !== undefined && performance.now() - fullSince >= NO_ROOM_MS) {
      await api.delete(virtualMachinePath(address), { signal })
      while ((await api.find(virtualMachinePath(address), anyObject, { signal })) !== undefined)
        await pause(POLL_MS, undefined, { signal })
      return refused('no_capacity', 'The node has no room for the virtual machine.')
    }
    await pause(POLL_MS, undefined, { signal })
  }
  return undefined
}
