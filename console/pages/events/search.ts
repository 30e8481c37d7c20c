/** What stands in the address of this page. A value that cannot be right is left out. */
import { z } from 'zod'
import { eventTypes, type EventType } from '../../../src/contract/event.ts'

const types = Object.keys(eventTypes) as [EventType, ...EventType[]]

export const eventsSearch = z.object({ type: z.enum(types).optional().catch(undefined) })
