/** Every value that the API can send has a label. */
import { describe, expect, test } from 'vitest'
import { requestOperations } from '../contract/choices.ts'
import { eventTypes, type EventType } from '../contract/event-type.ts'
import { rentalStates, rentalStateTable } from '../contract/rental-state.ts'
import { eventDetail, eventSubject, eventTitle, eventTone } from './event.ts'
import { checkLabel, findingLabel, houseAccountLabel } from './ledger.ts'
import { nextStatesHint } from './next-states.ts'
import { rentalReasonNextStep, rentalReasonSentence } from './rental.ts'
import { duration, protocolOf, requestUsage } from './request.ts'
import { stateTone } from './tone.ts'

describe('events', () => {
  test('every type has a title of its own', () => {
    const titles = (Object.keys(eventTypes) as EventType[]).map(eventTitle)
    expect(new Set(titles).size).toBe(Object.keys(eventTypes).length)
    expect(titles.join()).not.toContain('.')
  })

  test('an unknown type is shown unchanged', () => {
    const type = 'rental.teleported' as EventType
    expect([eventTitle(type), eventTone(type)]).toEqual(['rental.teleported', 'plain'])
  })

  test.each([
    [
      'rental.created',
      { gpuCount: 8, region: 'us-west', costPerHourUsd: '19.920000000' },
      '8 × GPU, us-west, $19.92/hr',
    ],
    ['balance.credited', { amountUsd: '25.000000001' }, '$25.00'],
    ['balance.runway_low', { hours: 24 }, 'Runs out within 24 hours'],
    ['rental.failed', { reason: 'image_not_found' }, 'The image was not found.'],
    ['rental.failed', { reason: 'image_not_found', detail: 'no such tag' }, 'no such tag'],
    ['webhook.test', {}, ''],
  ] as const)('%s with %j shows %j', (type, data, detail) => expect(eventDetail({ type, data })).toBe(detail))

  test('the subject is a label, a name or a number', () => {
    const subject = { kind: 'rental', id: '17' } as const
    expect(eventSubject({ subject, data: { label: '', name: 'fox' } })).toBe('fox')
    expect(eventSubject({ subject, data: {} })).toBe('rental 17')
    expect(eventSubject({ subject: { kind: 'balance', id: 'acc_1' }, data: {} })).toBe('Account')
  })
})

describe('rentals', () => {
  test.each(rentalStates)('%s names every state that can follow', (status) => {
    const hint = nextStatesHint(status) ?? ''
    for (const next of rentalStateTable[status].next) expect(hint).toContain(next)
  })

  test.each(rentalStates)('%s has the color of its row', (status) => {
    expect(stateTone(status)).toBe(rentalStateTable[status].tone)
  })

  test('a start may take longer than the usual limit, and only a start (issue 31, 8: La-6)', () => {
    expect(nextStatesHint('Pending')).toContain('Fails after 30 minutes, or later')
    expect(nextStatesHint('Unknown')).toMatch(/Fails after 60 minutes\.$/)
  })

  test('an unknown reason is shown unchanged, with a next step', () => {
    expect(rentalReasonSentence('fan_stopped')).toBe('The engine reports: fan stopped.')
    expect(rentalReasonNextStep('fan_stopped')).toContain('Terminate it')
  })
})

describe('the ledger', () => {
  test('a failed check names the violated fact', () => {
    expect(checkLabel('ledger_sums_to_zero')).toBe('All ledger accounts sum to zero')
    expect(findingLabel('ledger_sums_to_zero')).toBe('Violated: all ledger accounts sum to zero')
    expect(findingLabel('unknown_rental')).toBe('A machine is running without a rental')
  })

  test('unknown names are readable', () => {
    expect([checkLabel('new_check'), findingLabel('new_check'), houseAccountLabel('new_fund')]).toEqual([
      'new check',
      'new check',
      'new fund',
    ])
  })
})

describe('requests', () => {
  const used = { operation: 'chat', inputUnits: 1_200, cachedUnits: 800, outputUnits: 300 }
  test.each([
    [used, '1,200 (800 cached) in, 300 out'],
    [{ ...used, cachedUnits: 0 }, '1,200 in, 300 out'],
    [{ ...used, operation: 'speech' }, '1,200 characters'],
    [{ ...used, operation: 'image' }, '300 pixel steps'],
  ])('usage of %j', (request, text) => {
    expect(requestUsage(request as Parameters<typeof requestUsage>[0])).toBe(text)
  })

  test('durations and operations', () => {
    expect([duration(340.2), duration(2_540)]).toEqual(['340 ms', '2.5 s'])
    const protocols = requestOperations.map((operation) => protocolOf({ operation, batchId: null }))
    expect(new Set(protocols).size).toBe(requestOperations.length)
    expect(protocolOf({ operation: 'messages', batchId: 'batch_1' })).toBe('Messages, batch')
    expect(protocolOf({ operation: 'video', batchId: null })).toBe('video')
  })
})
