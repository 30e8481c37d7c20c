/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'
import { eventTypes, type EventType } from '../../../src/contract/event.ts'

const types = Object.keys(eventTypes) as [EventType, ...EventType[]]

export const eventsSearch = z.object({ type: z.enum(types).optional().catch(undefined) })
