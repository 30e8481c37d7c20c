/**
 * A network of hosts on this machine: a switch, and one network namespace per host with an address on it. Run a process
 * on a host with `nsenter --net=/run/netns/NAME` (`ip netns exec` would hide the cgroups). Isolated from the outside.
 * Needs root.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { freeSubnet } from './free-subnet.ts'
import { startLabSwitch } from './lab-switch.ts'

const execFileAsync = promisify(execFile)

export interface HostNetwork {
  /** Address at which hosts reach a server on this machine. */
  readonly bridgeAddress: string
  /** Subnet of the hosts, such as `10.1.2.0/24`. */
  readonly subnet: string
  addHost(name: string): Promise<NetworkHost>
  close(): Promise<void>
}

export interface NetworkHost {
  /** The name of its network namespace. */
  readonly netns: string
  readonly address: string
  /** Addresses for workloads on it, such as `10.200.8.0/21`. This machine reaches them through the host. */
  readonly innerSubnet: string
  /** Simulates a pulled cable. */
  linkDown(): Promise<void>
  linkUp(): Promise<void>
}

const MAX_HOSTS = 200

export async function startHostNetwork(): Promise<HostNetwork> {
  const network = startLabSwitch('hosts')
  let hosts = 0
  return {
    bridgeAddress: network.address,
    subnet: `${network.prefix}.0/24`,
    addHost: async (name) => {
      if (hosts >= MAX_HOSTS) throw new Error('the network is full')
      hosts += 1
      const netns = `${network.name}-${name}`
      const address = `${network.prefix}.${10 + hosts}`
      const cable = network.addNamespace(netns, address)
      const forward = 'echo 1 >/proc/sys/net/ipv4/ip_forward'
      await execFileAsync('nsenter', [`--net=/run/netns/${netns}`, 'sh', '-c', forward], { timeout: 30_000 })
      const { subnet: innerSubnet } = freeSubnet('inner')
      network.route(innerSubnet, address)
      return {
        netns,
        address,
        innerSubnet,
        linkDown: async () => cable.unplug(),
        linkUp: async () => cable.plug(),
      }
    },
    close: async () => network.close(),
  }
}
