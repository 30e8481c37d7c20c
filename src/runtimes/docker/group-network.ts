/**
 * The private network of a group on one host: a VXLAN interface, created on the host and moved into the container, so that
 * no bridge and no route of the host carries its packets. Each node knows the addresses of the others and their hosts;
 * nothing is learned or flooded. There is no encryption: the supplier declares the network between its hosts trusted.
 *
 * The command of a node waits behind a gate until the interface has the alias `open`. A restarted container has a new
 * network namespace, so it waits again until its interface is back.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import type { Workload } from '../../contract/agent.ts'
import { contained } from '../../base/net/contained.ts'
import type { WorkloadStatus } from '../runtime.ts'
import { programEnvironment } from '../run-program.ts'
import { LINK_CHECK } from './group-link-check.ts'
import { runIn } from './run-in.ts'

type GroupOrder = NonNullable<Workload['group']>

const GROUP_INTERFACE = 'berth0'
const OPEN = 'open'
/** Every step of the connection has been taken. */
const JOINED = 'joined'
const FIRST_PORT = 24_000
/** A machine is rented whole, so a host has one group at a time, and only a neighbor's old packets share a port. */
const PORTS = 4_000
const TABLE = 'berth_group'

/** Waits in the container for the start of its group. */
export const GATE = [
  '/bin/sh',
  '-c',
  `until [ "$(cat /sys/class/net/${GROUP_INTERFACE}/ifalias 2>/dev/null)" = ${OPEN} ]; do sleep 0.2 2>/dev/null || sleep 1; done; exec "$@"`,
  'sh',
] as const

const measured = z.object({ rank: z.int().min(0), mbps: z.number().min(0) })
type Link = z.output<typeof measured>

interface LinkCheck {
  readonly pid: number
  readonly child: ChildProcess
  readonly links: Map<number, Link>
}

export class GroupNetworks {
  readonly #checks = new Map<string, LinkCheck>()
  readonly #changed: () => void
  readonly #onError: (what: string, error: unknown) => void

  constructor({ changed, onError }: { changed: () => void; onError: (what: string, error: unknown) => void }) {
    this.#changed = changed
    this.#onError = onError
  }

  /**
   * Connects a running container and measures the links to the other nodes; once the group is open, lets its command begin.
   * Returns whether it has.
   */
  async join(id: string, group: GroupOrder, pid: number): Promise<boolean> {
    const alias = await readAlias(pid)
    if (alias !== JOINED && alias !== OPEN) await connect(group, pid)
    if (group.isOpen) {
      await runIn(namespaceOf(pid), 'ip', ['link', 'set', 'dev', GROUP_INTERFACE, 'alias', OPEN])
      this.leave(id)
      return true
    }
    if (this.#checks.get(id)?.pid !== pid) {
      this.leave(id)
      this.#measure(id, group, pid)
    }
    return false
  }

  /** The status of a container whose command waits. undefined: it runs. `links` is undefined until it has joined. */
  async gateOf(id: string, pid: number): Promise<Pick<WorkloadStatus, 'state' | 'message' | 'group'> | undefined> {
    if ((await readAlias(pid)) === OPEN) return undefined
    const check = this.#checks.get(id)
    const links = check?.pid === pid ? [...check.links.values()].sort((a, b) => a.rank - b.rank) : undefined
    return { state: 'starting', message: 'waiting for the other nodes', group: { links } }
  }

  leave(id: string): void {
    const check = this.#checks.get(id)
    this.#checks.delete(id)
    check?.child.kill('SIGKILL')
  }

  close(): void {
    for (const id of this.#checks.keys()) this.leave(id)
  }

  #measure(id: string, group: GroupOrder, pid: number): void {
    const others = group.addresses.flatMap((address, rank) => (rank === group.rank ? [] : [{ rank, address }]))
    const job = JSON.stringify({ own: group.addresses[group.rank], others })
    const args = [`--net=${namespaceOf(pid)}`, process.execPath, '-e', LINK_CHECK, job]
    const child = spawn('nsenter', args, { env: programEnvironment, stdio: ['pipe', 'pipe', 'ignore'] })
    const check: LinkCheck = { pid, child, links: new Map() }
    this.#checks.set(id, check)
    const lost = (): void => {
      if (this.#checks.get(id) !== check) return
      this.#checks.delete(id)
      this.#changed()
    }
    const failed = (error: unknown): void => {
      this.#onError(`links of ${id}`, error)
      lost()
    }
    child.once('error', failed)
    child.once('exit', lost)
    createInterface({ input: child.stdout }).on(
      'line',
      contained(failed, (line: string) => {
        const link = measured.parse(JSON.parse(line))
        check.links.set(link.rank, link)
        this.#changed()
      }),
    )
  }
}

function namespaceOf(pid: number): string {
  return `/proc/${pid}/ns/net`
}

/** undefined: the container has no interface of a group. */
async function readAlias(pid: number): Promise<string | undefined> {
  try {
    return (await readFile(`/proc/${pid}/root/sys/class/net/${GROUP_INTERFACE}/ifalias`, 'utf8')).trim()
  } catch {
    return undefined
  }
}

async function connect({ rank, number, mtu, addresses, hosts }: GroupOrder, pid: number): Promise<void> {
  const port = String(FIRST_PORT + (number % PORTS))
  const ownHost = hosts[rank] ?? ''
  const others = hosts.filter((host) => host !== ownHost)
  // Others on the network between the hosts cannot reach the group.
  const filter = `udp dport ${port} ip saddr != { ${others.join(', ')} } drop`
  await runIn(
    undefined,
    'nft',
    ['-f', '-'],
    `add table inet ${TABLE}
delete table inet ${TABLE}
table inet ${TABLE} {
  chain input {
    type filter hook input priority -10; policy accept;
    ${filter}
  }
}
`,
  )
  const outside = `berthg${number % 1_000_000}`
  await runIn(undefined, 'ip', ['link', 'del', outside]).catch(() => '')
  const inside = (...args: string[]): Promise<string> => runIn(namespaceOf(pid), args[0] ?? '', args.slice(1))
  // A connection that was cut off begins again.
  await inside('ip', 'link', 'del', GROUP_INTERFACE).catch(() => '')
  const tunnel = ['type', 'vxlan', 'id', String(number), 'local', ownHost, 'dstport', port, 'nolearning']
  await runIn(undefined, 'ip', ['link', 'add', outside, 'mtu', String(mtu), 'address', macOf(number, rank), ...tunnel])
  await runIn(undefined, 'ip', ['link', 'set', outside, 'netns', String(pid), 'name', GROUP_INTERFACE])
  await inside('ip', 'addr', 'add', `${addresses[rank]}/24`, 'dev', GROUP_INTERFACE)
  await inside('ip', 'link', 'set', GROUP_INTERFACE, 'up')
  for (const [other, host] of hosts.entries()) {
    if (other === rank) continue
    const mac = macOf(number, other)
    await inside('bridge', 'fdb', 'replace', mac, 'dev', GROUP_INTERFACE, 'dst', host, 'self', 'permanent')
    await inside(
      'ip',
      'neigh',
      'replace',
      addresses[other] ?? '',
      'lladdr',
      mac,
      'dev',
      GROUP_INTERFACE,
      'nud',
      'permanent',
    )
  }
  await inside('ip', 'link', 'set', 'dev', GROUP_INTERFACE, 'alias', JOINED)
}

/** A local address that follows from the group and the rank, so that no node has to ask for it. */
function macOf(number: number, rank: number): string {
  const bytes = [(number >> 16) & 255, (number >> 8) & 255, number & 255, rank]
  return ['02', 'be', ...bytes.map((byte) => byte.toString(16).padStart(2, '0'))].join(':')
}

/** Variables for the programs of a node. Those of the order win, except where a name is reserved. */
export function groupEnvironment(group: GroupOrder, gpus: number): Record<string, string> {
  const { rank, addresses } = group
  const master = { addr: 'node-0', port: '29500' }
  return {
    PET_NNODES: String(addresses.length),
    PET_NODE_RANK: String(rank),
    PET_MASTER_ADDR: master.addr,
    PET_MASTER_PORT: master.port,
    PET_NPROC_PER_NODE: String(gpus),
    MASTER_ADDR: master.addr,
    MASTER_PORT: master.port,
    NODE_RANK: String(rank),
    NUM_NODES: String(addresses.length),
    NCCL_SOCKET_IFNAME: GROUP_INTERFACE,
    GLOO_SOCKET_IFNAME: GROUP_INTERFACE,
    BERTH_NODE_IPS: addresses.join(','),
    BERTH_HOSTFILE: HOSTFILE,
  }
}

const HOSTFILE = '/etc/berth-hostfile'

export function hostfileOf({ addresses }: GroupOrder, gpus: number): { path: string; content: string; mode: string } {
  const lines = addresses.map((_, rank) => `node-${rank} slots=${gpus}\n`)
  return { path: HOSTFILE, content: lines.join(''), mode: '0644' }
}
