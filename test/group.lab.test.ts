/** Groups on real hosts: agents and Docker daemons in network namespaces of their own, joined by one LAN. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { succeed } from './harness/journey.ts'
import type { Reply } from './harness/exchange.ts'
import { waitFor } from './harness/wait.ts'
import { startMachines, type ContainerHost, type Customer, type Machines } from './lab/machines.ts'
import { needs } from './needs.ts'

needs('docker', 'build')

const run = promisify(execFile)
const START_MS = 120_000
const LOST_MS = 150_000

/** Each rank sends its number plus one to the head, which adds its own: all that a launcher needs, by its variables. */
const SUM = `
if [ "$PET_NODE_RANK" = 0 ]; then value=$(nc -l -p "$PET_MASTER_PORT"); echo "sum $((value + 1)) of $PET_NNODES"
else until echo $((PET_NODE_RANK + 1)) | nc "$PET_MASTER_ADDR" "$PET_MASTER_PORT"; do sleep 1; done; fi
exec sleep 100000`

let machines: Machines
let ada: Customer
const groups: Array<Reply['body']> = []

const look = (id: string) => succeed(ada.call, 'GET', `/v2/groups/${id}`)

function hostOf(node: { machineId: string }): ContainerHost {
  const host = machines.hosts.find(({ id }) => id === node.machineId)
  if (host === undefined) throw new Error(`there is no host ${node.machineId}`)
  return host
}

async function waitForState(id: string, isThere: (state: string) => boolean, limitMs: number): Promise<void> {
  let seen = ''
  const check = async (): Promise<boolean> => {
    const group = await look(id)
    seen = JSON.stringify(group)
    return isThere(group.state as string)
  }
  await waitFor(() => seen, check, limitMs)
}

/** Runs a command in the container of a node; its output, or undefined if it fails. */
async function inside(node: { machineId: string }, ...command: string[]): Promise<string | undefined> {
  return hostOf(node)
    .docker.docker('exec', await containerAt(node), ...command)
    .catch(() => undefined)
}

/** The name of the container of a node. */
async function containerAt(node: { machineId: string }): Promise<string> {
  const names = await hostOf(node).docker.docker('ps', '--filter', 'label=berth.group-rank', '--format', '{{.Names}}')
  return names.trim()
}

const reaches = async (node: { machineId: string }, address: string): Promise<boolean> =>
  (await inside(node, 'ping', '-c', '1', '-W', '2', address)) !== undefined

beforeAll(async () => {
  machines = await startMachines({ hosts: 4, gpus: 'rtx4090:1', inGroups: true })
  ada = await machines.customer()
  const order = { nodes: 2, gpusPerNode: 1, clusterName: 'lab', command: ['/bin/sh', '-c', SUM] }
  for (let n = 0; n < 2; n += 1) groups.push(await succeed(ada.call, 'POST', '/v2/groups', order))
}, 240_000)
afterAll(() => machines.close())

test('promise 31: programs start when all nodes reach each other, and find each other by the variables of a launcher', async () => {
  for (const { id, name } of groups) {
    await waitForState(id, (state) => state === 'running', START_MS)
    const { nodes } = await look(id)
    expect(nodes.map((node: { links: unknown[] }) => node.links.length)).toEqual([1, 1])
    expect(nodes[0].links[0].mbps).toBeGreaterThan(1)
    const lab = hostOf(nodes[0]).docker
    await waitFor(
      'the sum',
      async () => (await lab.docker('logs', await containerAt(nodes[0]))).includes('sum 3 of 2'),
      30_000,
    )
    expect(await succeed(ada.call, 'GET', `/v2/rentals/${name}-0`)).toMatchObject({ state: 'Running' })
    expect(await inside(nodes[1], 'cat', '/etc/berth-hostfile')).toBe('node-0 slots=1\nnode-1 slots=1\n')
    const env = (await inside(nodes[1], 'env')) ?? ''
    for (const line of [
      'PET_NODE_RANK=1',
      'NCCL_SOCKET_IFNAME=berth0',
      'MASTER_ADDR=node-0',
      `BERTH_NODE_IPS=${nodes[0].address},${nodes[1].address}`,
    ])
      expect(env.split('\n')).toContain(line)
    expect(env).not.toMatch(/^(WORLD_SIZE|RANK)=/m)
  }
}, 300_000)

test('promise 33: neither another group nor the network between the hosts reaches a group', async () => {
  const [one, other] = await Promise.all(groups.map(({ id }) => look(id)))
  expect(await reaches(one.nodes[0], 'node-1')).toBe(true)
  expect(await reaches(one.nodes[0], other.nodes[0].address)).toBe(false)
  const [, second = 0, third = 0] = one.nodes[0].address.split('.').map(Number)
  const number = (second - 128) * 256 + third
  const stranger = await machines.network.addHost('stranger')
  const host = hostOf(one.nodes[0])
  const ip = (...args: string[]) => run('nsenter', [`--net=/run/netns/${stranger.netns}`, 'ip', ...args])
  const port = String(24_000 + (number % 4_000))
  const tunnel = ['id', String(number), 'local', stranger.address, 'remote', host.docker.address, 'dstport', port]
  // It knows everything: number, port and addresses, and pretends to be node 1.
  const hex = number.toString(16).padStart(6, '0')
  const mac = (rank: number) => `02:be:${hex.slice(0, 2)}:${hex.slice(2, 4)}:${hex.slice(4)}:0${rank}`
  await ip('link', 'add', 'forged', 'address', mac(1), 'type', 'vxlan', ...tunnel)
  await ip('addr', 'add', `${one.nodes[1].address}/24`, 'dev', 'forged')
  await ip('link', 'set', 'forged', 'up')
  await ip('neigh', 'replace', one.nodes[0].address, 'lladdr', mac(0), 'dev', 'forged', 'nud', 'permanent')
  const count = async (): Promise<number> =>
    Number((await inside(one.nodes[0], 'cat', '/sys/class/net/berth0/statistics/rx_packets'))?.trim())
  const before = await count()
  const ping = ['ping', '-c', '2', '-W', '1', one.nodes[0].address]
  const forge = () => run('nsenter', [`--net=/run/netns/${stranger.netns}`, ...ping]).catch(() => undefined)
  await forge()
  expect(await count()).toBe(before)
  // The same packets arrive without the rules of the host.
  const rules = ['delete', 'table', 'inet', 'berth_group']
  await run('nsenter', [`--net=/run/netns/${host.docker.netns}`, 'nft', ...rules])
  await forge()
  await waitFor('forged packets', async () => (await count()) > before)
})

test('promise 35: restarts of an agent change neither the network nor the programs', async () => {
  const { id, nodes } = await look(groups[0].id)
  const host = hostOf(nodes[0])
  const started = async () => inside(nodes[0], 'cat', '/proc/1/stat')
  const before = await started()
  await host.stopAgent('kill')
  expect(await reaches(nodes[0], 'node-1')).toBe(true)
  await host.startAgent('kept')
  expect(await reaches(nodes[1], 'node-0')).toBe(true)
  expect((await started())?.split(' ')[21]).toBe(before?.split(' ')[21])
  expect((await look(id)).state).toBe('running')
})

test('promise 32: a node whose host is gone ends its group, and the other group goes on', async () => {
  const { id, nodes } = await look(groups[0].id)
  const host = hostOf(nodes[1])
  await host.stopAgent('kill')
  await host.docker.cutPower()
  await waitForState(id, (state) => state !== 'running', LOST_MS)
  expect(await look(id)).toMatchObject({ stateReason: 'node_lost', failedRank: 1 })
  expect((await look(groups[1].id)).state).toBe('running')
}, 180_000)
