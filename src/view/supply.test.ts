import { describe, expect, test } from 'vitest'
import { hasLeft, ON_SALE, standingOf, suppliedOf, type Host, type Machine } from './supply.ts'

const NOW = Date.parse('2026-11-14T12:00:00.000Z')

const host = (over: Partial<Host> = {}): Host =>
  ({
    id: 'pier-1',
    state: 'ready',
    stateReason: null,
    seenAt: '2026-11-14T11:59:58.000Z',
    isSilent: false,
    fault: null,
    tenants: 0,
    ...over,
  }) as Host
const machine = (over: Partial<Machine> = {}): Machine =>
  ({
    id: 'pier-1',
    status: 'node_ready',
    listed: true,
    offering: 'marketplace',
    pricePerGpuHourUsd: '0.40',
    ...over,
  }) as Machine

describe('the state of a machine', () => {
  test.each([
    [host(), machine(), 'On sale'],
    [undefined, machine(), 'On sale'],
    [host(), undefined, 'Ready'],
    [host({ state: 'left' }), machine(), 'Left'],
    [host({ state: 'quarantined', stateReason: 'cleaning failed' }), machine(), 'Quarantined'],
    [host({ state: 'cleaning' }), machine(), 'Cleaning'],
    [host({ state: 'cleaning_pending' }), machine(), 'Waiting for cleaning'],
    [host({ seenAt: null }), undefined, 'Joined'],
    [host({ isSilent: true }), machine(), 'Offline'],
    [host({ fault: { reason: 'tenants_not_isolated', message: 'no' } }), machine(), 'Fault'],
    [host({ state: 'draining', tenants: 2 }), machine(), 'Draining'],
    [undefined, machine({ status: 'node_draining' }), 'Draining'],
    [undefined, machine({ status: 'node_lost' }), 'Lost'],
    [host(), machine({ listed: false }), 'Off sale'],
    [host(), machine({ pricePerGpuHourUsd: null }), 'No price'],
    [host(), machine({ pricePerGpuHourUsd: null, offering: 'bare-metal' }), 'On sale'],
  ])('case %#: %j', (ofHost, ofMachine, label) => {
    expect(standingOf({ host: ofHost, machine: ofMachine }, NOW).label).toBe(label)
  })

  test('the hint gives the reason and the number of tenants', () => {
    const draining = standingOf(
      { host: host({ state: 'draining', tenants: 2, stateReason: 'repair' }), machine: machine() },
      NOW,
    )
    expect(draining.hint).toBe('It accepts no new tenants. It still has 2 tenants. Reason: repair.')
    const offline = standingOf(
      { host: host({ isSilent: true, seenAt: '2026-11-14T11:00:00.000Z' }), machine: machine() },
      NOW,
    )
    expect(offline.hint).toBe('Last seen 1 hour ago. Check whether its agent is running.')
  })

  test('"on sale" is a single value that can be counted', () => {
    expect(standingOf({ host: host(), machine: machine() }, NOW)).toBe(ON_SALE)
  })
})

test('a machine in the catalog describes the pair, and otherwise its host', () => {
  const pair = { id: 'a', host: host({ region: 'declared' }), machine: machine({ region: 'listed' }) }
  expect(suppliedOf(pair).of.region).toBe('listed')
  expect(suppliedOf({ ...pair, machine: null }).of.region).toBe('declared')
  expect(hasLeft(suppliedOf({ id: 'a', host: host({ state: 'left' }), machine: null }))).toBe(true)
  expect(() => suppliedOf({ id: 'a', host: null, machine: null })).toThrow('neither')
})
