/** Lists the virtual machines that Berth runs in a cluster. */
import type { Instant } from '../../base/instant.ts'
import type { DriverMachine } from '../driver.ts'
import { hasStatus } from './api.ts'
import type { Cluster } from './cluster.ts'
import { externalIdOf, OURS, TAG_ANNOTATION } from './names.ts'
import { virtualMachineInstance, virtualMachineObject } from './objects.ts'
import { showVirtualMachine } from './virtual-machine-state.ts'
import { INSTANCES, VIRTUAL_MACHINES } from './virtual-machine.ts'

export async function listVirtualMachines(
  cluster: Cluster,
  { tagPrefix, now, relayHost }: { tagPrefix: string; now: Instant; relayHost: string },
  signal: AbortSignal,
): Promise<DriverMachine[]> {
  const { api, config } = cluster
  const query = { labelSelector: OURS }
  const listed = await api.list(VIRTUAL_MACHINES, virtualMachineObject, { query, signal }).catch((error: unknown) => {
    // Without KubeVirt, this kind of object does not exist.
    if (hasStatus(error, 404)) return { items: [] }
    throw error
  })
  const ours = listed.items.flatMap((machine) => {
    const tag = machine.metadata.annotations?.[TAG_ANNOTATION]
    return tag?.startsWith(tagPrefix) === true ? [{ machine, tag }] : []
  })
  if (ours.length === 0) return []
  const instances = await api.list(INSTANCES, virtualMachineInstance, { signal })
  const byName = new Map(instances.items.map((one) => [`${one.metadata.namespace}/${one.metadata.name}`, one]))
  const reach = await cluster.reach(
    [...new Set(instances.items.flatMap(({ status }) => status?.nodeName ?? []))],
    signal,
  )
  return ours.map(({ machine, tag }) => {
    const { name, namespace = '' } = machine.metadata
    const instance = byName.get(`${namespace}/${name}`)
    const nodeReach = reach.get(instance?.status?.nodeName ?? '') ?? { isReady: true }
    const externalId = externalIdOf({ cluster: config.name, namespace, name })
    return showVirtualMachine(machine, instance, { externalId, tag }, { reach: nodeReach, now, relayHost })
  })
}
