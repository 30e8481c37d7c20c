/** What an agent says to the people in front of it. */
import type { AgentEvent } from '../agent/agent.ts'
import type { HostOffer } from '../contract/agent.ts'
import { count } from '../view/number.ts'

export function offerWords(offer: HostOffer): string {
  const gpus = `${offer.gpusTotal} × ${offer.gpuModel}${offer.simulated ? ' (simulated)' : ''}`
  const sick = offer.gpusSick.length === 0 ? '' : `, ${offer.gpusSick.length} of them sick`
  const price =
    offer.priceUsdPerGpuHour === null ? 'at the house price' : `at $${offer.priceUsdPerGpuHour} a GPU and hour`
  return `${gpus}${sick}, on sale as ${offer.offering} in ${offer.region} ${price}`
}

export function eventWords(event: AgentEvent, server: string): string {
  switch (event.kind) {
    case 'offer':
      return [offerWords(event.offer), ...event.notes.map((note) => `  ${note}`)].join('\n')
    case 'workloads':
      return event.total === 0 ? 'Nothing runs here.' : `Running ${event.running} of ${count(event.total, 'machine')}.`
    case 'state':
      return stateWords[event.state]
    case 'connected':
      return `Connected to ${server}.`
    case 'lost':
      return `No connection to ${server}: ${event.message}. What runs here runs on; trying again.`
    case 'refused':
      return `The server has refused: ${event.refusal.message}`
    case 'error':
      return `Failed: ${event.message}`
  }
}

export const stateWords: Readonly<Record<Extract<AgentEvent, { kind: 'state' }>['state'], string>> = {
  ready: 'Ready for tenants.',
  draining: 'Draining: no new tenants come; those that are here stay until they leave.',
  cleaning: 'Being cleaned after a tenant.',
  quarantined: 'In quarantine: the operator decides what becomes of it.',
  left: 'It has left; it is no longer on sale.',
}
