/**
 * A supplier's machines and their state. A machine in the catalog and the host that runs it share one name, and each can
 * exist without the other: a host that has just joined is not in the catalog yet, and an engine's own machine has no
 * host.
 */
import type { Reply } from '../client/client.ts'
import { count } from './number.ts'
import { relativeTime } from './time.ts'
import type { Tone } from './tone.ts'

export type Host = Reply<'listSuppliedHosts'>['hosts'][number]
export type Machine = Reply<'listSuppliedMachines'>['machines'][number]

export interface Supplied {
  readonly id: string
  readonly host: Host | undefined
  readonly machine: Machine | undefined
  readonly of: Pick<Machine, 'region' | 'clusterName' | 'offering' | 'gpuModel' | 'gpusTotal' | 'gpusSick'>
}

/** The form that the page of a supplier reads. */
export function suppliedOf({ id, host, machine }: Reply<'listSupply'>['supplied'][number]): Supplied {
  const of = machine ?? host
  if (of === null) throw new Error(`${id} is neither a machine nor a host`)
  return { id, host: host ?? undefined, machine: machine ?? undefined, of }
}

export function hasLeft({ host }: Pick<Supplied, 'host'>): boolean {
  return host?.state === 'left'
}

export interface Standing {
  readonly label: string
  readonly tone: Tone
  /** The meaning, and the next step. */
  readonly hint: string
}

export const ON_SALE: Standing = { label: 'On sale', tone: 'good', hint: 'Customers can rent it.' }

export function standingOf({ host, machine }: Pick<Supplied, 'host' | 'machine'>, nowMs: number): Standing {
  const ofHost = host === undefined ? undefined : standingOfHost(host, nowMs)
  if (ofHost !== undefined) return ofHost
  if (machine === undefined) return { label: 'Ready', tone: 'good', hint: 'It will be listed in a moment.' }
  return standingOfMachine(machine)
}

const statuses = {
  draining: { label: 'Draining', tone: 'warn', hint: 'It accepts no new tenants.' },
  cleaning: { label: 'Cleaning', tone: 'info', hint: 'It is being cleaned for the next tenant.' },
  quarantined: { label: 'Quarantined', tone: 'bad', hint: 'The operator has to release it.' },
  lost: { label: 'Lost', tone: 'bad', hint: 'Its engine does not report it.' },
} as const satisfies Readonly<Record<string, Standing>>

/** undefined: the host is healthy, and the catalog says the rest. */
function standingOfHost(host: Host, nowMs: number): Standing | undefined {
  const why = host.stateReason === null ? '' : ` Reason: ${host.stateReason}.`
  switch (host.state) {
    case 'left':
      return { label: 'Left', tone: 'plain', hint: 'It is no longer on sale. It can join again.' }
    case 'quarantined':
      return { ...statuses.quarantined, hint: `${statuses.quarantined.hint}${why}` }
    case 'cleaning':
      return { ...statuses.cleaning, hint: `${statuses.cleaning.hint}${why}` }
    case 'cleaning_pending':
      return {
        label: 'Waiting for cleaning',
        tone: 'warn',
        hint: 'Its last tenant has left. It is cleaned once it is reachable, and accepts no tenants until then.',
      }
    case 'draining':
    case 'ready':
      break
  }
  if (host.seenAt === null) {
    return { label: 'Joined', tone: 'info', hint: 'Its agent has not reported yet. Start it with: berth agent run' }
  }
  if (host.isSilent) {
    const lastSeen = relativeTime(host.seenAt, nowMs)
    return { label: 'Offline', tone: 'bad', hint: `Last seen ${lastSeen}. Check whether its agent is running.` }
  }
  if (host.fault !== null) return { label: 'Fault', tone: 'bad', hint: `It accepts no tenants. ${host.fault.message}` }
  if (host.state === 'ready') return undefined
  const tenants = host.tenants === 0 ? 'It is empty.' : `It still has ${count(host.tenants, 'tenant')}.`
  return { ...statuses.draining, hint: `${statuses.draining.hint} ${tenants}${why}` }
}

function standingOfMachine(machine: Machine): Standing {
  const status = machine.status.replace(/^node_/, '')
  if (Object.hasOwn(statuses, status)) return statuses[status as keyof typeof statuses]
  if (!machine.listed) {
    return { label: 'Off sale', tone: 'warn', hint: 'You took it off sale. Current rentals continue.' }
  }
  if (machine.offering === 'marketplace' && machine.pricePerGpuHourUsd === null) {
    return { label: 'No price', tone: 'warn', hint: 'Set a price to put it on sale.' }
  }
  return ON_SALE
}

export const offeringLabels = {
  marketplace: 'Containers',
  'virtual-machine': 'Virtual machines',
  'bare-metal': 'Bare metal',
} as const satisfies Record<Machine['offering'], string>
