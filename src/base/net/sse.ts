/** Formats server-sent events. */

/** On every stream: keeps proxies such as nginx from buffering it. */
export const unbuffered = { name: 'X-Accel-Buffering', value: 'no' } as const

export interface SseMessage {
  readonly id?: string
  readonly event?: string
  readonly data: string
}

export function formatSse(message: SseMessage): string {
  const id = message.id === undefined ? '' : `id: ${message.id}\n`
  const event = message.event === undefined ? '' : `event: ${message.event}\n`
  const data = message.data
    .split('\n')
    .map((line) => `data: ${line}\n`)
    .join('')
  return `${id}${event}${data}\n`
}

export const sseHeartbeat = ': still here\n\n'
