/** The network between the hosts of a cluster, over which the nodes of a group reach each other. */
import fs from 'node:fs'
import os from 'node:os'
import type { HostOffer } from '../contract/agent.ts'
import { findProgram } from '../runtimes/run-program.ts'
import { AgentError } from './agent-error.ts'
import type { Membership } from './identity.ts'

/** undefined: the machine is not offered for groups. */
export function clusterOf({ run, terms }: Pick<Membership, 'run' | 'terms'>): HostOffer['cluster'] {
  const { clusterAddress: address, trustedLan } = run
  if (address === undefined || terms.offering !== 'marketplace') return undefined
  if (trustedLan !== true) {
    throw new AgentError('Groups send unencrypted packets between the machines of a cluster.', [
      'If only machines and people you trust are on that network: --trusted-lan',
      'To offer this machine without groups, leave out --cluster-address.',
    ])
  }
  const mtu = mtuOf(address)
  if (mtu === undefined) throw new AgentError(`${address} is not an address of this machine.`)
  for (const program of ['ip', 'bridge', 'nft', 'nsenter']) findProgram(program)
  return { address, network: 'vxlan', mtu }
}

function mtuOf(address: string): number | undefined {
  const [name] =
    Object.entries(os.networkInterfaces()).find(([, all]) => all?.some((one) => one.address === address)) ?? []
  return name === undefined ? undefined : Number.parseInt(fs.readFileSync(`/sys/class/net/${name}/mtu`, 'utf8'), 10)
}
