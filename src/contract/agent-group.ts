/** Nodes of groups in the protocol between an agent and its server. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'

/** How a host reaches the others of its cluster. */
export const clusterOffer = z.object({
  address: z.ipv4(),
  network: z.enum(['vxlan']),
  mtu: z.int().min(1_000).max(65_535),
})

export const groupOrder = z.object({
  rank: z.int().min(0),
  number: z.int().min(0),
  mtu: z.int(),
  /** The addresses of the nodes in the network of the group, and of their hosts, by rank. */
  addresses: z.array(z.ipv4()).max(limits.groupNodes),
  hosts: z.array(z.ipv4()).max(limits.groupNodes),
  /** All nodes reach each other: its program may start. */
  isOpen: z.boolean(),
})

/** The measured speed to another node in Mbit/s. */
const groupLink = z.object({ rank: z.int().min(0), mbps: z.number().min(0).max(1e9) })

/** The links that a node has measured so far. Absent: it has not joined the network. */
export const groupObservation = z.object({ links: z.array(groupLink).max(limits.groupNodes) })
