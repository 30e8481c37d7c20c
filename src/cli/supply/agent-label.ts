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

export function eventText(event: AgentEvent, server: string): string {
  switch (event.kind) {
    case 'offer':
      return [offerLabel(event.offer), ...event.notes.map((note) => `  ${note}`)].join('\n')
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
