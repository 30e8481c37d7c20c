import { expect, test } from 'vitest'
import { violationsOf } from '../conformance-bench.ts'
import { parseClusters, type ClusterConfig } from './config.ts'
import { noUse, offerOf, type NodeUse } from './node-offer.ts'
import type { NodeObject } from './objects.ts'

const config: ClusterConfig = (() => {
  const read = parseClusters(
    JSON.stringify({ clusters: [{ name: 'lab', region: 'eu-1', prices: { 'NVIDIA-H100-80GB-HBM3': '2.00' } }] }),
    '/',
  )
  const [first] = read.kind === 'read' ? read.clusters : []
  if (first === undefined) throw new Error('not read')
  return first
})()

const size = { cpu: '96', memory: '1000Gi', 'ephemeral-storage': '2Ti', 'nvidia.com/gpu': '8' }
const node: NodeObject = {
  metadata: { name: 'gpu-1', labels: { 'nvidia.com/gpu.product': 'NVIDIA-H100-80GB-HBM3' } },
  spec: { taints: [{ key: 'nvidia.com/gpu', value: 'present', effect: 'NoSchedule' }] },
  status: {
    capacity: size,
    allocatable: size,
    conditions: [{ type: 'Ready', status: 'True' }],
    nodeInfo: { architecture: 'amd64' },
  },
}
const withUse = (use: Partial<NodeUse>): NodeUse => ({ ...noUse, ...use })
const machineOf = (given: NodeObject, use: NodeUse = noUse) => {
  const offer = offerOf(given, use, config)
  if (offer.kind === 'none') throw new Error(offer.reason)
  return offer.machine
}

test('a node with known GPUs is a machine of the marketplace', () => {
  const machine = machineOf(node)
  expect(violationsOf(machine)).toEqual([])
  expect(machine).toMatchObject({
    id: 'lab-gpu-1',
    clusterName: 'lab',
    gpuType: 'h100',
    gpuFormFactor: 'sxm5',
    gpuRamMib: 81_559,
    gpusTotal: 8,
    gpusSick: [],
    priceUsdPerGpuHour: '2.00',
    hardware: { virtualCores: 96, ramGb: 1_073, cpuArch: 'x64', disk: 'watched' },
  })
})

test('GPUs that are broken or that others have are not sold, whichever of ours are rented', () => {
  const broken = { ...node, status: { ...node.status, allocatable: { ...size, 'nvidia.com/gpu': '7' } } }
  expect(machineOf(broken).gpusSick).toEqual([7])
  expect(machineOf(node, withUse({ otherGpus: 2 })).gpusSick).toEqual([6, 7])
  expect(machineOf(broken, withUse({ otherGpus: 2, ourGpus: new Set([7, 0]) })).gpusSick).toEqual([4, 5, 6])
  expect(machineOf(node, withUse({ otherGpus: 20 })).gpusSick).toHaveLength(8)
})

test('while the memory of a GPU is held, no free GPU is sold, since the kubelet chooses the device', () => {
  const held = '2048 MiB of GPU 2 are in use, and no pod has it'
  expect(machineOf(node, withUse({ blockReason: held, ourGpus: new Set([0, 1]) })).gpusSick).toEqual([2, 3, 4, 5, 6, 7])
})

test('what other pods need of the node is not promised', () => {
  const { hardware } = machineOf(node, withUse({ otherCores: 4.5, otherBytes: 100e9, otherDiskBytes: 1e12 }))
  expect([hardware.virtualCores, hardware.ramGb, hardware.storageGb]).toEqual([91, 973, 1_199])
})

const status = node.status
test.each<[string, Partial<NodeObject>, string]>([
  ['is not ready', { status: { ...status, conditions: [{ type: 'Ready', status: 'Unknown' }] } }, 'not ready'],
  ['is cordoned', { spec: { unschedulable: true } }, 'cordoned'],
  ['has a taint of its own', { spec: { taints: [{ key: 'team', effect: 'NoSchedule' }] } }, 'taint team'],
  ['is being removed', { metadata: { ...node.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } }, 'removed'],
  ['has no GPUs', { status: { ...status, capacity: { cpu: '8' } } }, 'no GPUs'],
  ['does not tell its GPUs', { metadata: { name: 'gpu-1' } }, 'no label'],
  ['has GPUs without a price', { metadata: { name: 'n', labels: { 'nvidia.com/gpu.product': 'NVIDIA-L4' } } }, 'price'],
  [
    'shares its GPUs',
    { metadata: { name: 'n', labels: { 'nvidia.com/gpu.product': 'NVIDIA-H100-80GB-HBM3-SHARED' } } },
    'shared',
  ],
])('a node is not sold that %s', (_, change, why) => {
  expect(offerOf({ ...node, ...change }, noUse, config)).toEqual({
    kind: 'none',
    reason: expect.stringContaining(why),
  })
})

test('a taint that only asks to be avoided does not keep a node from being sold', () => {
  const taints = [{ key: 'busy', effect: 'PreferNoSchedule' }]
  expect(offerOf({ ...node, spec: { taints } }, noUse, config).kind).toBe('offer')
})
