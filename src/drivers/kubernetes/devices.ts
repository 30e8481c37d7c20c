/**
 * GPUs by Dynamic Resource Allocation: a driver publishes the devices of a node as ResourceSlices, and pods get them by
 * ResourceClaims, one per rental. The claims show which devices others have.
 */
import type { RentalSpec } from '../../domain/rental.ts'
import type { ClusterConfig } from './config.ts'
import { TAG_ANNOTATION } from './names.ts'
import type { ResourceClaimObject, ResourceSliceObject } from './objects.ts'
import { parseQuantity } from './quantity.ts'

export const SLICES_PATH = '/apis/resource.k8s.io/v1/resourceslices'
export const CLAIMS_PATH = '/apis/resource.k8s.io/v1/resourceclaims'
const BYTES_PER_MIB = 1_048_576
const REQUEST = 'gpus'

type Dra = NonNullable<ClusterConfig['dra']>

/** The devices of one node. */
export interface NodeDevices {
  readonly total: number
  /** The number of devices that the driver reports without a taint. */
  readonly working: number
  readonly product: string | undefined
  readonly ramMib: number | undefined
}

interface Device {
  /** `pool/device` */
  readonly id: string
  readonly node: string
  readonly product: string | undefined
  readonly ramMib: number | undefined
  readonly isWorking: boolean
}

export interface DeviceView {
  readonly devicesOf: (node: string) => NodeDevices
  /** Counts the devices of a node that are claimed by others. */
  readonly othersOf: (node: string) => number
}

export function viewDevices(
  slices: readonly ResourceSliceObject[],
  claims: readonly ResourceClaimObject[],
  { driver }: Pick<Dra, 'driver'>,
  tagPrefix: string,
): DeviceView {
  const devices = currentSlices(slices.filter(({ spec }) => spec.driver === driver)).flatMap(listDevices)
  const byNode = groupBy(devices, ({ node }) => node)
  const nodeOf = new Map(devices.map(({ id, node }) => [id, node]))
  const others = new Map<string, number>()
  for (const { metadata, status } of claims) {
    if (metadata.annotations?.[TAG_ANNOTATION]?.startsWith(tagPrefix) === true) continue
    for (const result of status?.allocation?.devices?.results ?? []) {
      const node = nodeOf.get(`${result.pool}/${result.device}`)
      // Administrators may look at a device without claiming it.
      if (result.driver === driver && node !== undefined && result.adminAccess !== true)
        others.set(node, (others.get(node) ?? 0) + 1)
    }
  }
  return {
    devicesOf: (node) => summaryOf(byNode.get(node) ?? []),
    othersOf: (node) => others.get(node) ?? 0,
  }
}

/** Only the newest generation of a pool counts, and only if all of its slices are there. */
function currentSlices(slices: readonly ResourceSliceObject[]): ResourceSliceObject[] {
  return [...groupBy(slices, ({ spec }) => spec.pool.name).values()].flatMap((pool) => {
    const newest = Math.max(...pool.map(({ spec }) => spec.pool.generation))
    const current = pool.filter(({ spec }) => spec.pool.generation === newest)
    return current.length === current[0]?.spec.pool.resourceSliceCount ? current : []
  })
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}

function listDevices({ spec }: ResourceSliceObject): Device[] {
  const { nodeName } = spec
  // A device that several nodes reach belongs to no machine.
  if (nodeName === undefined) return []
  return (spec.devices ?? []).map(({ name, attributes = {}, capacity = {}, taints = [] }) => {
    const bytes = parseQuantity(capacity['memory']?.value)
    return {
      id: `${spec.pool.name}/${name}`,
      node: nodeName,
      // The labels of GPU feature discovery use this spelling.
      product: attributes['productName']?.string?.replaceAll(/[^A-Za-z0-9_.]+/g, '-'),
      ramMib: bytes === undefined ? undefined : Math.round(bytes / BYTES_PER_MIB),
      isWorking: taints.every(({ effect }) => effect === 'None'),
    }
  })
}

/** A machine has GPUs of one kind: the kind of its first device. */
function summaryOf(devices: readonly Device[]): NodeDevices {
  const [first] = devices
  const sameKind = devices.filter(({ product }) => product === first?.product)
  return {
    total: sameKind.length,
    working: sameKind.filter(({ isWorking }) => isWorking).length,
    product: first?.product,
    ramMib: first?.ramMib,
  }
}

/** Requests whole devices of the class. */
export function resourceClaim(order: {
  readonly name: string
  readonly namespace: string
  readonly labels: Readonly<Record<string, string>>
  readonly tag: string
  readonly spec: RentalSpec
  readonly dra: Dra
}) {
  const { name, namespace, labels, tag, spec, dra } = order
  const exactly = { deviceClassName: dra.deviceClass, allocationMode: 'ExactCount', count: spec.gpuCount }
  return {
    apiVersion: 'resource.k8s.io/v1',
    kind: 'ResourceClaim',
    metadata: { name, namespace, labels, annotations: { [TAG_ANNOTATION]: tag } },
    spec: { devices: { requests: [{ name: REQUEST, exactly }] } },
  }
}

export function resourceClaimPath({ namespace, name }: { namespace: string; name: string }): string {
  return `/apis/resource.k8s.io/v1/namespaces/${namespace}/resourceclaims/${name}`
}

/** The fields of a pod and of its container that use the claim. */
export function claimUse(name: string) {
  return {
    ofPod: { resourceClaims: [{ name: REQUEST, resourceClaimName: name }] },
    ofContainer: { claims: [{ name: REQUEST }] },
  }
}

/** The amount that a quota limits. */
export function deviceQuotaName({ deviceClass }: Dra): string {
  return `${deviceClass}.deviceclass.resource.k8s.io/devices`
}
