/** Checks every pair of states: forbidden moves matter as much as allowed ones. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instantOf } from '../base/instant.ts'
import { instanceStatus as instanceStatuses } from '../contract/marketplace.ts'
import { rentalStatus, type RentalStatus } from '../contract/rental.ts'
import {
  instanceStatus,
  isLiving,
  livingStates,
  mayMove,
  idOfTag,
  rentalMoves,
  stateLimits,
  statesBefore,
  tagOf,
  tagPrefix,
} from './rental.ts'

const states = rentalStatus.options

/** From row to column: x is allowed, . is not. Written by hand, so that a change of the table shows here. */
const grid = `
               Pending Running Unknown Failed Terminating Terminated
Pending        .       x       .       x      x           .
Running        .       .       x       x      x           .
Unknown        .       x       .       x      x           .
Failed         .       .       .       .      x           .
Terminating    .       .       .       .      .           x
Terminated     .       .       .       .      .           .
`

function readGrid(): Array<readonly [RentalStatus, RentalStatus, boolean]> {
  const [head = '', ...rows] = grid.trim().split('\n')
  const columns = head.trim().split(/\s+/) as RentalStatus[]
  return rows.flatMap((row) => {
    const [from, ...marks] = row.trim().split(/\s+/)
    return columns.map((to, i) => [from as RentalStatus, to, marks[i] === 'x'] as const)
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
    const reachable = (from: RentalStatus, seen = new Set<RentalStatus>()): Set<RentalStatus> => {
      for (const to of rentalMoves[from]) if (!seen.has(to)) reachable(to, seen.add(to))
      return seen
    }
    for (const state of states) expect(state === 'Terminated' || reachable(state).has('Terminated')).toBe(true)
    expect([...reachable('Terminated')]).toEqual([])
    expect([...reachable('Pending'), 'Pending'].toSorted()).toEqual(states.toSorted())
  })
})

describe('kinds of states', () => {
  test('every living state can end and can fail', () => {
    expect(states.filter(isLiving)).toEqual(states.filter((state) => mayMove(state, 'Failed')))
    for (const state of livingStates) expect(mayMove(state, 'Terminating')).toBe(true)
  })

  test('only states that can fail have a failing limit, and every transient state has a limit', () => {
    for (const [state, limit] of Object.entries(stateLimits)) {
      expect(limit.ms).toBeGreaterThan(0)
      expect(mayMove(state as RentalStatus, 'Failed')).toBe(limit.past === 'fail')
    }
    expect(Object.keys(stateLimits).toSorted()).toEqual(['Failed', 'Pending', 'Terminating', 'Unknown'])
  })
})

test('maps each state to the marketplace status', () => {
  const at = instantOf(0)
  expect(states.map((state) => [state, instanceStatus(state, null), instanceStatus(state, at)])).toEqual([
    ['Failed', 'failed', 'failed'],
    ['Pending', 'creating', 'starting'],
    ['Running', 'online', 'online'],
    ['Terminating', 'stopping', 'stopping'],
    ['Terminated', 'terminated', 'terminated'],
    ['Unknown', 'unknown', 'unknown'],
  ])
  const words = new Set(states.flatMap((state) => [instanceStatus(state, null), instanceStatus(state, at)]))
  expect([...words].toSorted()).toEqual(instanceStatuses.options.toSorted())
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
