import { expect, test } from 'vitest'
import { addMs, instantOf, SECOND_MS } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import {
  addressOf,
  chooseMachines,
  groupStep,
  MAX_GROUP_RESTARTS,
  nodeName,
  type FreeMachine,
  type GroupFacts,
  type GroupNode,
} from './group.ts'

const NOW = instantOf(Date.parse('2026-01-01T00:00:00Z'))

function machine(id: string, price: string, more: Partial<FreeMachine> = {}): FreeMachine {
  const where = {
    driver: 'mock',
    clusterName: 'a',
    region: 'r',
    supplierId: null,
    gpuModel: 'H100',
    network: '',
    address: null,
    mtu: null,
  }
  return { id, price: usd(price), ...where, ...more }
}

test('the cheapest cluster with enough machines serves a group, its cheapest machines by id', () => {
  const machines = [
    machine('a2', '2'),
    machine('a1', '3'),
    machine('a3', '1'),
    machine('b1', '0.5', { clusterName: 'b' }),
    machine('c1', '4', { clusterName: 'c' }),
    machine('c2', '4', { clusterName: 'c' }),
  ]
  expect(chooseMachines(machines, 2)?.map(({ id }) => id)).toEqual(['a2', 'a3'])
  expect(chooseMachines(machines, 3)?.map(({ id }) => id)).toEqual(['a1', 'a2', 'a3'])
  expect(chooseMachines(machines, 4)).toBeUndefined()
})

test.each<Partial<FreeMachine>>([
  { supplierId: 'other' },
  { network: 'vxlan' },
  { region: 'elsewhere' },
  { gpuModel: 'H200' },
  { driver: 'host' },
])('machines that differ in %o form no group', (more) => {
  expect(chooseMachines([machine('a1', '1'), machine('a2', '1', more)], 2)).toBeUndefined()
})

const running: GroupFacts = { state: 'running', stateSince: NOW, onNodeLoss: 'end', restarts: 0, retryAt: null }
const node = (rank: number, more: Partial<GroupNode> = {}): GroupNode => ({
  rank,
  status: 'Running',
  statusReason: null,
  seenAt: null,
  ...more,
})
const completed = { status: 'Terminated', statusReason: 'completed' } as const
const failed = { status: 'Failed', statusReason: 'process_exited' } as const

test('a group goes on while its nodes run, also when some have completed', () => {
  expect(groupStep(running, [node(0), node(1)], NOW).kind).toBe('wait')
  expect(groupStep(running, [node(0), node(1, completed)], NOW).kind).toBe('wait')
  expect(groupStep(running, [node(0, completed), node(1, completed)], NOW)).toMatchObject({ reason: 'completed' })
})

test('promise 32: silence counts from the last report, and ends a group after 60 seconds', () => {
  const silent = [node(0), node(1, { status: 'Unknown', seenAt: NOW })]
  expect(groupStep(running, silent, addMs(NOW, 60 * SECOND_MS - 1)).kind).toBe('wait')
  const step = groupStep(running, silent, addMs(NOW, 60 * SECOND_MS))
  expect(step).toEqual({ kind: 'end', reason: 'node_lost', rank: 1 })
})

test('promise 32: a fault restarts a group that has run, as often as its limit; the end of a node by a person does not', () => {
  const restarting = { ...running, onNodeLoss: 'restart' } as const
  const nodes = [node(0), node(1, failed)]
  expect(groupStep(restarting, nodes, NOW)).toEqual({ kind: 'restart', reason: 'process_exited', rank: 1 })
  expect(groupStep({ ...restarting, restarts: MAX_GROUP_RESTARTS }, nodes, NOW).kind).toBe('end')
  expect(groupStep({ ...restarting, state: 'starting' }, nodes, NOW).kind).toBe('end')
  expect(groupStep({ ...restarting, state: 'starting', restarts: 1 }, nodes, NOW).kind).toBe('restart')
  const ended = { status: 'Terminating', statusReason: 'balance_empty' } as const
  expect(groupStep(restarting, [node(0, ended), node(1)], NOW)).toEqual({
    kind: 'end',
    reason: 'balance_empty',
    rank: 0,
  })
})

test('names and addresses follow from the rank', () => {
  expect(nodeName('brave-teal-otter', 3, 0)).toBe('brave-teal-otter-3')
  expect(nodeName('brave-teal-otter', 3, 2)).toBe('brave-teal-otter-3-r2')
  expect(addressOf({ number: 1, rank: 0 })).toBe('10.128.1.1')
  expect(addressOf({ number: 32_767, rank: 15 })).toBe('10.255.255.16')
})
