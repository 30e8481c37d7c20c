/** Checks every pair of states: forbidden moves matter as much as allowed ones. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instantOf } from '../base/instant.ts'
import { instanceStatus as instanceStatuses } from '../contract/marketplace.ts'
import { rentalStatus } from '../contract/rental.ts'
import { rentalStates as states, rentalStateTable, statesWhere, type RentalState } from '../contract/rental-state.ts'
import {
  actionsOf,
  instanceStatus,
  isLiving,
  keepsDisk,
  mayMove,
  idOfTag,
  statesBefore,
  tagOf,
  tagPrefix,
  wireStatus,
} from './rental.ts'

/** From row to column: x is allowed, . is not. Written by hand, so that a change of the table shows here. */
const grid = `
               Pending Running Unknown Stopping Stopped Starting Failed Terminating Terminated
Pending        .       x       .       .        .       .        x      x           .
Running        .       .       x       x        .       .        x      x           .
Unknown        .       x       .       x        .       .        x      x           .
Stopping       .       .       .       .        x       .        .      x           .
Stopped        .       .       .       x        .       x        .      x           .
Starting       .       x       .       x        .       .        .      x           .
Failed         .       .       .       .        .       .        .      x           .
Terminating    .       .       .       .        .       .        .      .           x
Terminated     .       .       .       .        .       .        .      .           .
`

function readGrid(): Array<readonly [RentalState, RentalState, boolean]> {
  const [head = '', ...rows] = grid.trim().split('\n')
  const columns = head.trim().split(/\s+/) as RentalState[]
  return rows.flatMap((row) => {
    const [from, ...marks] = row.trim().split(/\s+/)
    return columns.map((to, i) => [from as RentalState, to, marks[i] === 'x'] as const)
  })
}

describe('moves', () => {
  test('the grid above is complete', () => {
    const cells = readGrid().map(([from, to]) => `${from} ${to}`)
    expect(cells.toSorted()).toEqual(states.flatMap((from) => states.map((to) => `${from} ${to}`)).toSorted())
  })

  test.each(readGrid())('%s → %s: %s', (from, to, may) => {
    expect(mayMove(from, to)).toBe(may)
    expect(statesBefore(to).includes(from)).toBe(may)
  })

  test('every state ends in Terminated, and nothing leaves it', () => {
    const reachable = (from: RentalState, seen = new Set<RentalState>()): Set<RentalState> => {
      for (const to of rentalStateTable[from].next) if (!seen.has(to)) reachable(to, seen.add(to))
      return seen
    }
    for (const state of states) expect(state === 'Terminated' || reachable(state).has('Terminated')).toBe(true)
    expect([...reachable('Terminated')]).toEqual([])
    expect([...reachable('Pending'), 'Pending'].toSorted()).toEqual(states.toSorted())
  })
})

describe('kinds of states', () => {
  test('every living state can end, and none that keeps a disk can fail (issue 31, A)', () => {
    expect(states.filter((state) => mayMove(state, 'Terminating')).toSorted()).toEqual(
      [...states.filter(isLiving), 'Failed'].toSorted(),
    )
    expect(states.filter((state) => isLiving(state) && !mayMove(state, 'Failed'))).toEqual(states.filter(keepsDisk))
  })

  test('a rental that was stopped runs again only through a start, and a failed start leads back to Stopped', () => {
    expect(statesBefore('Stopped')).toEqual(['Stopping'])
    expect(statesBefore('Starting')).toEqual(['Stopped'])
    expect(mayMove('Starting', 'Stopping')).toBe(true)
  })

  test('only held GPUs of living rentals count against the quota, and a machine is paid for only while it has its GPUs', () => {
    for (const state of states) {
      const { holdsGpus, countsAgainstQuota, billing, reachable } = rentalStateTable[state]
      expect(!countsAgainstQuota || (holdsGpus && isLiving(state))).toBe(true)
      expect(holdsGpus || (billing !== 'full' && billing !== 'paused')).toBe(true)
      expect(isLiving(state) || (billing === 'none' && !reachable)).toBe(true)
    }
  })

  test('a call to the engine is due where the machine is not yet what it is meant to be', () => {
    const goalOf = { create: 'on', start: 'on', stop: 'off', destroy: 'gone' } as const
    for (const state of states) {
      const { goal, driverCall, limit } = rentalStateTable[state]
      expect(driverCall === null || (goalOf[driverCall] === goal && limit !== null)).toBe(true)
    }
  })

  test('every event moves to one state', () => {
    const events = states.flatMap((state) => rentalStateTable[state].events)
    expect(new Set(events).size).toBe(events.length)
    expect(states.filter((state) => rentalStateTable[state].events.length === 0)).toEqual([])
  })

  test('a limit leads to a state that can follow, and every transient state has a limit', () => {
    const leadsTo = { fail: 'Failed', stop: 'Stopping', flag: undefined } as const
    for (const state of states) {
      const { limit } = rentalStateTable[state]
      const next = limit === null ? undefined : leadsTo[limit.past]
      expect(limit?.ms).not.toBe(0)
      expect(next === undefined || mayMove(state, next)).toBe(true)
    }
    expect(statesWhere(({ limit }) => limit === null)).toEqual(['Running', 'Stopped', 'Terminated'])
  })

  test('the actions of a state are those that its engine can do and that lead somewhere', () => {
    const all = { stop: true, reboot: true }
    expect(states.map((state) => [state, actionsOf(state, all).join(' ')])).toEqual([
      ['Pending', 'terminate'],
      ['Running', 'stop reboot terminate'],
      ['Unknown', 'terminate'],
      ['Stopping', 'terminate'],
      ['Stopped', 'start terminate'],
      ['Starting', 'stop terminate'],
      ['Failed', 'terminate'],
      ['Terminating', ''],
      ['Terminated', ''],
    ])
    expect(actionsOf('Running', { stop: false, reboot: true })).toEqual(['reboot', 'terminate'])
    expect(actionsOf('Stopped', { stop: false, reboot: true })).toEqual(['terminate'])
  })
})

test('maps each state to the marketplace status', () => {
  const at = instantOf(0)
  expect(states.map((state) => [state, instanceStatus(state, null), instanceStatus(state, at)])).toEqual([
    ['Pending', 'creating', 'starting'],
    ['Running', 'online', 'online'],
    ['Unknown', 'unknown', 'unknown'],
    ['Stopping', 'stopping', 'stopping'],
    ['Stopped', 'stopped', 'stopped'],
    ['Starting', 'starting', 'starting'],
    ['Failed', 'failed', 'failed'],
    ['Terminating', 'stopping', 'stopping'],
    ['Terminated', 'terminated', 'terminated'],
  ])
  const words = new Set(states.flatMap((state) => [instanceStatus(state, null), instanceStatus(state, at)]))
  expect([...words].toSorted()).toEqual(instanceStatuses.options.toSorted())
})

test('shows states that the interface has no word for as the nearest one', () => {
  expect(states.flatMap((state) => (wireStatus(state) === state ? [] : `${state} is ${wireStatus(state)}`))).toEqual([
    'Stopping is Running',
    'Stopped is Pending',
    'Starting is Pending',
  ])
  expect(new Set(states.map(wireStatus))).toEqual(new Set(rentalStatus.options))
})

describe('tags', () => {
  const installation = 'a1b2c3'

  test('finds a rental by its own tag only', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2_147_483_647 }), (id) => {
        const row = { id, nonce: '0badcafe' }
        const tag = tagOf(installation, 'rental', row)
        expect(tag.startsWith(tagPrefix(installation))).toBe(true)
        expect(idOfTag(installation, 'rental', tag)).toBe(id)
        expect(idOfTag('other1', 'rental', tag)).toBeUndefined()
        expect(idOfTag(installation, 'rental', tagOf(installation, 'volume', row))).toBeUndefined()
      }),
    )
  })

  test.each([
    '',
    'berth-a1b2c3-',
    'berth-a1b2c3-x',
    'berth-a1b2c3-1x',
    'berth-a1b2c3--1',
    'berth-a1b2c3-17',
    'someone-else-17',
  ])('%j is not the tag of a rental', (tag) => {
    expect(idOfTag(installation, 'rental', tag)).toBeUndefined()
  })
})
