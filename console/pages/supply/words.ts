/**
 * A supplier's machines as they stand. A machine of the catalogue and the host that runs it have one name, and each may
 * be there without the other: a host that has just joined is not in the catalogue yet, an engine of the house has none.
 */
import type { Reply } from '../../../src/client/client.ts'
import { count } from '../../../src/view/number.ts'
import { relativeTime } from '../../../src/view/time.ts'
import type { Tone } from '../../ui/badge.tsx'

export type Host = Reply<'listSuppliedHosts'>['hosts'][number]
export type Machine = Reply<'listSuppliedMachines'>['machines'][number]

/** How many machines these pages show; the command line pages through more. */
export const MACHINES_SHOWN = 1_000
/** Hosts raise no events: they are asked. */
export const HOSTS_EVERY_MS = 5_000

export interface Supplied {
  readonly id: string
  readonly host: Host | undefined
  readonly machine: Machine | undefined
  readonly of: Pick<Machine, 'region' | 'clusterName' | 'offering' | 'gpuModel' | 'gpusTotal' | 'gpusSick'>
}

/** By name; those that have left come last. */
export function pairUp(hosts: readonly Host[], machines: readonly Machine[]): Supplied[] {
  const byId = new Map<string, Supplied>()
  for (const machine of machines) byId.set(machine.id, { id: machine.id, host: undefined, machine, of: machine })
  for (const host of hosts) {
    const machine = byId.get(host.id)?.machine
    byId.set(host.id, { id: host.id, host, machine, of: machine ?? host })
  }
  return [...byId.values()].sort((a, b) => Number(hasLeft(a)) - Number(hasLeft(b)) || a.id.localeCompare(b.id))
}

export function hasLeft({ host }: Supplied): boolean {
  return host?.state === 'left'
}

export interface Standing {
  readonly word: string
  readonly tone: Tone
  /** What it means, and what to do. */
  readonly sentence: string
}

export function standingOf({ host, machine }: Supplied, nowMs: number): Standing {
  const said = host === undefined ? undefined : standingOfHost(host, nowMs)
  if (said !== undefined) return said
  if (machine === undefined) {
    // The house's machines are never listed as supplied.
    return { word: 'Ready', tone: 'good', sentence: 'It takes tenants, and is in the catalogue in a moment.' }
  }
  return standingOfMachine(machine)
}

/** undefined: the host is well, and the catalogue says the rest. */
function standingOfHost(host: Host, nowMs: number): Standing | undefined {
  const why = host.stateReason === null ? '' : ` Reason: ${host.stateReason}.`
  switch (host.state) {
    case 'left':
      return { word: 'Left', tone: 'plain', sentence: 'It is no longer on sale; it comes back by joining again.' }
    case 'quarantined':
      return { word: 'Quarantine', tone: 'bad', sentence: `The operator decides what becomes of it.${why}` }
    case 'cleaning':
      return { word: 'Cleaning', tone: 'info', sentence: `It is made ready for the next tenant.${why}` }
    case 'cleaning_pending':
      return {
        word: 'Waiting for cleaning',
        tone: 'warn',
        sentence: 'Its last tenant has left. It is cleaned when it can be reached, and not rented before.',
      }
    case 'draining':
    case 'ready':
      break
  }
  if (host.seenAt === null) {
    return { word: 'Joined', tone: 'info', sentence: 'Its agent has not reported yet; start it: berth agent run.' }
  }
  if (host.isSilent) {
    const heard = relativeTime(host.seenAt, nowMs)
    return { word: 'Silent', tone: 'bad', sentence: `Last heard ${heard}. Look whether its agent runs.` }
  }
  if (host.fault !== null) return { word: 'Fault', tone: 'bad', sentence: `It takes no tenants. ${host.fault.message}` }
  if (host.state === 'ready') return undefined
  const tenants = host.tenants === 0 ? 'It is empty.' : `${count(host.tenants, 'tenant')} still on it.`
  return { word: 'Draining', tone: 'warn', sentence: `No new tenants come. ${tenants}${why}` }
}

const statuses: Readonly<Record<string, Standing>> = {
  node_draining: { word: 'Draining', tone: 'warn', sentence: 'No new tenants come.' },
  node_cleaning: { word: 'Cleaning', tone: 'info', sentence: 'It is made ready for the next tenant.' },
  node_quarantined: { word: 'Quarantine', tone: 'bad', sentence: 'The operator decides what becomes of it.' },
  node_lost: { word: 'Lost', tone: 'bad', sentence: 'Its engine does not show it.' },
}

function standingOfMachine(machine: Machine): Standing {
  const other = statuses[machine.status]
  if (other !== undefined) return other
  if (!machine.listed) {
    return { word: 'Off sale', tone: 'warn', sentence: 'You have taken it off sale; what runs on it goes on.' }
  }
  if (machine.offering === 'marketplace' && machine.pricePerGpuHourUsd === null) {
    return { word: 'No price', tone: 'warn', sentence: 'Set a price, and it is on sale.' }
  }
  return { word: 'On sale', tone: 'good', sentence: 'Customers can rent it.' }
}

export const offeringWords: Readonly<Record<Machine['offering'], string>> = {
  marketplace: 'Containers',
  'virtual-machine': 'Virtual machines',
  'bare-metal': 'Bare metal',
}

/** "NVIDIA-L40S" as people write it. */
export function gpuWords(model: string): string {
  return model.replaceAll('-', ' ').replace(/^NVIDIA (GeForce )?/, '')
}
