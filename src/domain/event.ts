/** An event that has not been written yet. */
import type { EventType } from '../contract/event-type.ts'

export type EventSubject =
  | 'rental'
  | 'volume'
  | 'balance'
  | 'key'
  | 'webhook'
  | 'account'
  | 'budget'
  | 'deployment'
  | 'group'
  | 'job'

export interface NewEvent {
  readonly accountId: string
  readonly type: EventType
  readonly subject: { readonly kind: EventSubject; readonly id: string }
  readonly data: Readonly<Record<string, unknown>>
}
