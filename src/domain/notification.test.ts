import { describe, expect, test } from 'vitest'
import { eventTypes, type EventType } from '../contract/event-type.ts'
import { notificationKinds, type NotificationKind } from '../contract/notification-kind.ts'
import { describeNotice, noticeOf } from './notification.ts'

test('ends that nobody asked for are notifications, and others are not', () => {
  const of = (reason?: string) => noticeOf({ type: 'rental.terminating', data: reason === undefined ? {} : { reason } })
  expect([of('balance_empty'), of('budget_exceeded'), of('spending_limit')]).toEqual(
    Array.from({ length: 3 }, () => 'rental_stopped'),
  )
  expect([of('customer_request'), of('auto_terminate'), of('term_expired'), of()]).toEqual([null, null, null, null])
})

test('progress is not a notification', () => {
  const quiet: EventType[] = ['rental.created', 'rental.running', 'balance.credited', 'key.created', 'webhook.test']
  expect(quiet.map((type) => noticeOf({ type, data: {} }))).toEqual(quiet.map(() => null))
})

test('every event type has a decision', () => {
  for (const type of Object.keys(eventTypes) as EventType[]) {
    const kind = noticeOf({ type, data: {} })
    expect(kind === null || kind in notificationKinds).toBe(true)
  }
})

describe('reads as sentences even when the data is missing', () => {
  test.each(Object.keys(notificationKinds) as NotificationKind[])('%s', (kind) => {
    const { title, text } = describeNotice({ kind, subject: { kind: 'rental', id: '17' }, data: {} })
    expect(title).not.toMatch(/undefined|null|NaN/)
    expect(text).not.toMatch(/undefined|null|NaN/)
    expect(text).toMatch(/\.$/)
  })
})

test('names amounts, percentages and what happens next', () => {
  const data = { name: 'Research', percent: 100, exceeded: true, spentUsd: '512.3', monthlyUsd: '500' }
  const of = (more: object) =>
    describeNotice({ kind: 'budget', subject: { kind: 'budget', id: 'b' }, data: { ...data, ...more } })
  const { severity, title, text } = of({ action: 'block', scope: 'account' })
  expect([severity, title]).toEqual(['critical', 'Budget “Research” exceeded'])
  expect(text).toContain('$512.30 of $500.00')
  expect(text).toContain('New orders and inference are rejected')
  expect(of({ action: 'alert', scope: 'account' }).text).not.toContain('rejected')
  expect(of({ action: 'stop', scope: 'label' }).text).not.toContain('inference')
})
