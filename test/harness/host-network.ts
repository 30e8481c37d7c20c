/**
 * A network of hosts on this machine: a bridge in the root namespace, and one network namespace per host with an
 * address on it. Run a process on a host with `nsenter --net=/run/netns/NAME` (`ip netns exec` would hide the cgroups).
 * Isolated from the outside. Needs root.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { freeSubnet } from './free-subnet.ts'

const execFileAsync = promisify(execFile)

export interface HostNetwork {
  /** Address in the root namespace at which hosts reach a server on this machine. */
  readonly bridgeAddress: string
  /** Subnet of the bridge and the hosts, such as `10.1.2.0/24`. */
  readonly subnet: string
  addHost(name: string): Promise<NetworkHost>
  close(): Promise<void>
}

export interface NetworkHost {
  /** The name of its network namespace. */
  readonly netns: string
  readonly address: string
  /** Addresses for workloads on it, such as `10.200.8.0/21`. The root namespace reaches them through the host. */
  readonly innerSubnet: string
  /** Simulates a pulled cable. */
  linkDown(): Promise<void>
  linkUp(): Promise<void>
}

const MAX_HOSTS = 200

export async function startHostNetwork(): Promise<HostNetwork> {
  const mark = randomBytes(3).toString('hex')
  const bridge = `bb${mark}`
  const prefix = await makeBridge(bridge)
  const undo: Array<() => Promise<unknown>> = [() => run('ip', 'link', 'del', bridge)]
  let hosts = 0
  return {
    bridgeAddress: `${prefix}.1`,
    subnet: `${prefix}.0/24`,
    addHost: async (name) => {
      if (hosts >= MAX_HOSTS) throw new Error('the network is full')
      hosts += 1
      const netns = `b${mark}-${name}`
      const link = `bv${mark}${hosts}`
      const address = `${prefix}.${10 + hosts}`
      await run('ip', 'netns', 'add', netns)
      // The host's end of the link goes with it.
      undo.push(() => run('ip', 'netns', 'del', netns))
      await run('ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', netns)
      await run('ip', 'link', 'set', link, 'master', bridge, 'up')
      await run('ip', '-n', netns, 'link', 'set', 'lo', 'up')
      await run('ip', '-n', netns, 'addr', 'add', `${address}/24`, 'dev', 'eth0')
      await run('ip', '-n', netns, 'link', 'set', 'eth0', 'up')
      await run('nsenter', `--net=/run/netns/${netns}`, 'sh', '-c', 'echo 1 >/proc/sys/net/ipv4/ip_forward')
      const innerSubnet = await routeInner(address, bridge)
      return {
        netns,
        address,
        innerSubnet,
        linkDown: async () => void (await run('ip', 'link', 'set', link, 'down')),
        linkUp: async () => void (await run('ip', 'link', 'set', link, 'up')),
      }
    },
    close: async () => {
      for (const step of undo.splice(0).toReversed()) await step()
    },
  }
}

/** The first three octets of its addresses, which nothing else on this machine uses. */
async function makeBridge(bridge: string): Promise<string> {
  await run('ip', 'link', 'add', bridge, 'type', 'bridge')
  try {
    const { prefix } = freeSubnet('hosts')
    await run('ip', 'addr', 'add', `${prefix}.1/24`, 'dev', bridge)
    await run('ip', 'link', 'set', bridge, 'up')
    return prefix
  } catch (error) {
    await run('ip', 'link', 'del', bridge)
    throw error
  }
}

async function routeInner(address: string, bridge: string): Promise<string> {
  const { subnet } = freeSubnet('inner')
  await run('ip', 'route', 'add', subnet, 'via', address, 'dev', bridge)
  return subnet
}

async function run(program: string, ...args: string[]): Promise<string> {
  return (await execFileAsync(program, args, { timeout: 30_000 })).stdout
}
