import { describe, expect, test } from 'vitest'
import { usd } from '../base/money.ts'
import {
  isSharedWith,
  isUsableIn,
  overlappingMounts,
  volumeMoves,
  volumePricePerHour,
  volumeStatus,
  type VolumeState,
} from './volume.ts'

const states = Object.keys(volumeMoves) as VolumeState[]

/** From row to column: x is allowed, . is not. */
const grid = `
            creating active suspended unknown deleting deleted failed
creating    .        x      .         .       x        .       x
active      .        .      x         x       x        .       .
suspended   .        x      .         .       x        .       .
unknown     .        x      x         .       x        .       .
deleting    .        .      .         .       .        x       .
deleted     .        .      .         .       .        .       .
failed      .        .      .         .       x        .       .
`

describe('moves', () => {
  const [head = '', ...rows] = grid.trim().split('\n')
  const columns = head.trim().split(/\s+/)

  test('the grid is complete', () => {
    expect(columns).toEqual(states)
    expect(rows.map((row) => row.split(/\s+/)[0])).toEqual(states)
  })

  test.each(rows)('%s', (row) => {
    const [from = '', ...marks] = row.trim().split(/\s+/)
    const next: readonly string[] = volumeMoves[from as VolumeState]
    expect(columns.filter((_, i) => marks[i] === 'x').toSorted()).toEqual([...next].toSorted())
  })

  test('shows only active volumes as active, and only volumes with missing data as unknown', () => {
    expect(states.filter((state) => volumeStatus(state) === 'active')).toEqual(['active'])
    expect(states.filter((state) => volumeStatus(state) === 'unknown')).toEqual(['unknown'])
  })
})

test('a volume costs exactly its size times the price per GB', () => {
  expect(volumePricePerHour(usd('0.000137'), 1_024)).toBe(usd('0.140288'))
  expect(volumePricePerHour(usd('0.000000001'), 64_000)).toBe(usd('0.000064'))
})

describe('mount paths', () => {
  test.each([
    [['/data', '/models'], undefined],
    [['/data', '/data2', '/da'], undefined],
    [['/data', '/data'], { index: 1, path: '/data', other: '/data' }],
    [['/data', '/data/in'], { index: 1, path: '/data/in', other: '/data' }],
    [['/x', '/data/in', '/data'], { index: 2, path: '/data', other: '/data/in' }],
  ])('%j', (paths, overlap) => {
    expect(overlappingMounts(paths)).toEqual(overlap)
  })
})

describe('a volume on the disk of a host', () => {
  const reader = { kind: 'container', readOnly: true } as const
  const writer = { kind: 'container', readOnly: false } as const
  const machine = { kind: 'virtual-machine', readOnly: true } as const
  test.each([
    ['has one machine of any kind', [], machine, true],
    ['has one writer', [], writer, true],
    ['has several readers', [reader, reader], reader, true],
    ['has no writer beside readers', [reader], writer, false],
    ['has no reader beside a writer', [writer], reader, false],
    ['is never shared by virtual machines', [machine], machine, false],
  ] as const)('%s', (_, attached, next, isShared) => {
    expect(isSharedWith(attached, next)).toBe(isShared)
  })
})

test('a volume is usable in its region, and on machines outside of all regions', () => {
  expect(isUsableIn('us-east-1', 'us-east-1')).toBe(true)
  expect(isUsableIn('us-east-1', 'us-east-2')).toBe(false)
  expect(isUsableIn('us-east-1', 'local')).toBe(true)
})
