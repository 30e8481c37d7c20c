/**
 * A switch between the namespaces of a lab, in a namespace of its own. This machine has one cable to it. A bridge in
 * the machine's own namespace would pass its firewall, and Docker sets the policy for forwarded packets to DROP there.
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { freeSubnet, type SubnetKind } from './free-subnet.ts'

export interface LabSwitch {
  /** At most eight characters, for names of links and namespaces that belong to it. */
  readonly name: string
  /** The network namespace that the switch is in. */
  readonly netns: string
  /** First three octets of its addresses. */
  readonly prefix: string
  /** Address of this machine. */
  readonly address: string
  /** Adds a namespace with an address. Its end of the cable is `eth0`. */
  addNamespace(netns: string, address: string): LabCable
  /** A port for a virtual machine. QEMU has to run in the namespace of the switch. */
  addTap(): string
  /** Makes this machine send packets for a subnet to one of the addresses. */
  route(subnet: string, via: string): void
  close(): void
}

export interface LabCable {
  unplug(): void
  plug(): void
}

const BRIDGE = 'switch'

export function startLabSwitch(kind: SubnetKind): LabSwitch {
  const name = `bl${randomBytes(3).toString('hex')}`
  const netns = `${name}-switch`
  const namespaces = [netns]
  const inside = (...args: string[]): void => ip('-n', netns, ...args)
  // The cables go with the namespaces at their ends.
  const close = (): void => {
    for (const one of namespaces.splice(0).toReversed()) ip('netns', 'del', one)
  }
  let ports = 0
  const nextPort = (): string => {
    ports += 1
    return `p${ports}`
  }
  ip('netns', 'add', netns)
  try {
    inside('link', 'add', BRIDGE, 'type', 'bridge')
    inside('link', 'set', BRIDGE, 'up')
    const { prefix } = freeSubnet(kind)
    ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'machine', 'netns', netns)
    inside('link', 'set', 'machine', 'master', BRIDGE, 'up')
    ip('addr', 'add', `${prefix}.1/24`, 'dev', name)
    ip('link', 'set', name, 'up')
    return {
      name,
      netns,
      prefix,
      address: `${prefix}.1`,
      addNamespace: (space, address) => {
        const port = nextPort()
        ip('netns', 'add', space)
        namespaces.push(space)
        ip('link', 'add', port, 'netns', netns, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', space)
        inside('link', 'set', port, 'master', BRIDGE, 'up')
        ip('-n', space, 'link', 'set', 'lo', 'up')
        ip('-n', space, 'addr', 'add', `${address}/24`, 'dev', 'eth0')
        ip('-n', space, 'link', 'set', 'eth0', 'up')
        return {
          unplug: () => inside('link', 'set', port, 'down'),
          plug: () => inside('link', 'set', port, 'up'),
        }
      },
      addTap: () => {
        const port = nextPort()
        inside('tuntap', 'add', port, 'mode', 'tap')
        inside('link', 'set', port, 'master', BRIDGE, 'up')
        return port
      },
      route: (subnet, via) => ip('route', 'add', subnet, 'via', via, 'dev', name),
      close,
    }
  } catch (error) {
    close()
    throw error
  }
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: 'pipe', timeout: 30_000 })
}
