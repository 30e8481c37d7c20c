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

test('a deployment that stops, fails to start, or finds no machine is news', () => {
  const of = (type: EventType, reason?: string) => noticeOf({ type, data: reason === undefined ? {} : { reason } })
  expect([of('deployment.failed'), of('deployment.backing_off'), of('deployment.budget_reached')]).toEqual([
    'deployment_failed',
    'deployment_starts',
    'deployment_budget',
  ])
  expect([of('deployment.blocked', 'no_capacity'), of('deployment.blocked', 'hourly_budget')]).toEqual([
    'deployment_blocked',
    'deployment_budget',
  ])
  expect([of('deployment.scaled'), of('deployment.replica_failed'), of('deployment.replica_ended')]).toEqual([
    null,
    null,
    null,
  ])
  const stopped = (servingVersion: number | null) =>
    describeNotice({
      kind: 'deployment_failed',
      subject: { kind: 'deployment', id: 'dep_1' },
      data: { name: 'house/a', failures: 3, version: 4, reason: 'start_timed_out', servingVersion },
    })
  expect(stopped(3)).toMatchObject({ severity: 'warning', title: 'Rollout of house/a stopped' })
  expect(stopped(3).text).toContain('Version 3 keeps serving.')
  expect(stopped(null)).toMatchObject({ severity: 'critical', title: 'Deployment house/a failed' })
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
