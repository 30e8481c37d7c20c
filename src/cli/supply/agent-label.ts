/** States and events of an agent as text. */
import type { AgentEvent } from '../../agent/agent.ts'
import type { HostOffer } from '../../contract/agent.ts'
import { count } from '../../view/number.ts'
import { offeringLabels } from '../../view/supply.ts'

export function offerLabel(offer: HostOffer): string {
  const gpus = `${offer.gpusTotal} × ${offer.gpuModel}${offer.simulated ? ' (simulated)' : ''}`
  const faulty = offer.gpusSick.length === 0 ? '' : `, ${offer.gpusSick.length} faulty`
  const price =
    offer.priceUsdPerGpuHour === null
      ? 'at the price in the price book'
      : `at $${offer.priceUsdPerGpuHour} per GPU-hour`
  return `${gpus}${faulty}, on sale as ${offeringLabels[offer.offering].toLowerCase()} in region ${offer.region} ${price}`
}

/** Writes the events of one run. Notes on an offer are repeated only when they have changed. */
export function makeEventText(server: string): (event: AgentEvent) => string {
  let before: readonly string[] = []
  return (event) => {
    if (event.kind !== 'offer') return eventText(event, server)
    const notes = event.notes.filter((note) => !before.includes(note))
    before = event.notes
    return [offerLabel(event.offer), ...notes.map((note) => `  ${note}`)].join('\n')
  }
}

function eventText(event: Exclude<AgentEvent, { kind: 'offer' }>, server: string): string {
  switch (event.kind) {
    case 'workloads':
      return event.total === 0 ? 'Nothing is running.' : `${event.running} of ${count(event.total, 'machine')} running.`
    case 'state':
      return stateLabels[event.state]
    case 'connected':
      return `Connected to ${server}.`
    case 'lost':
      return `Lost the connection to ${server}: ${event.message}. Machines keep running; reconnecting.`
    case 'refused':
      return `The server rejected this machine: ${event.refusal.message}`
    case 'error':
      return `Error: ${event.message}`
  }
}

export const stateLabels: Readonly<Record<Extract<AgentEvent, { kind: 'state' }>['state'], string>> = {
  ready: 'Ready for tenants.',
  draining: 'Draining: no new tenants; current tenants stay until they leave.',
  cleaning: 'Cleaning up after a tenant.',
  quarantined: 'In quarantine: the operator must release or remove it.',
  left: 'Left: no longer on sale.',
}
