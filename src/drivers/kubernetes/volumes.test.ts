import { expect, test } from 'vitest'
import { growthOf } from './volumes.ts'

const metadata = { name: 'data' }
const GB = 1_000_000_000

test('a claim has grown when its storage has: the file system may follow with the next mount', () => {
  const of = (status: object) => growthOf({ metadata, status }, 512 * GB)
  expect(of({ capacity: { storage: '256G' } })).toBeUndefined()
  expect(of({ capacity: { storage: '512G' } })).toEqual({ kind: 'grown' })
  const pending = { type: 'FileSystemResizePending', status: 'True' }
  expect(of({ capacity: { storage: '256G' }, conditions: [pending] })).toEqual({ kind: 'grown' })
})

test('a claim whose storage cannot grow is refused with the reason of the storage', () => {
  const conditions = [{ type: 'ControllerResizeError', status: 'True', message: 'pool is full' }]
  const status = { capacity: { storage: '256G' }, conditions }
  const busy = { ...status, allocatedResourceStatuses: { storage: 'ControllerResizeInProgress' } }
  expect(growthOf({ metadata, status: busy }, 512 * GB)).toBeUndefined()
  const never = { ...status, allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' } }
  expect(growthOf({ metadata, status: never }, 512 * GB)).toEqual({ kind: 'refused', message: 'Pool is full.' })
})
