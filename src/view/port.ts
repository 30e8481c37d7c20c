/** Ports of machines: their labels and whether they answer. */
import type { PortRecord } from '../contract/port.ts'
import type { Tone } from './tone.ts'

/** `8888/http` */
export function portLabel({ port, protocol }: Pick<PortRecord, 'port' | 'protocol'>): string {
  return `${port}/${protocol}`
}

/** The address without the protocol of a TCP port, as programs take it: `host:29001`. */
export function portAddress({ url }: Pick<PortRecord, 'url'>): string | undefined {
  return url?.replace(/^tcp:\/\//, '')
}

export function portState({ url, healthPath, healthy }: PortRecord): { readonly label: string; readonly tone: Tone } {
  if (url === null) return { label: 'closed', tone: 'plain' }
  if (healthPath === null) return { label: 'open', tone: 'plain' }
  if (healthy === null) return { label: 'checking', tone: 'info' }
  return healthy ? { label: 'healthy', tone: 'good' } : { label: 'not answering', tone: 'warn' }
}
