/** Search parameters of this page. */
import { oneOf, searchReader } from '../../search.ts'
import { eventTypes, type EventType } from '../../../src/contract/event-type.ts'

const types = Object.keys(eventTypes) as [EventType, ...EventType[]]

export const eventsSearch = searchReader({ type: oneOf(types) })
