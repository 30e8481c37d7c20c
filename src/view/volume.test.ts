/** The actions on a volume follow from its state, its mounts and the abilities of its driver. */
import { describe, expect, test } from 'vitest'
import {
  isUsableAt,
  volumeState,
  whyNotAttach,
  whyNotClone,
  whyNotDelete,
  whyNotDetach,
  whyNotGrow,
  whyNotOrder,
  type Mounted,
  type Volume,
} from './volume.ts'

const disk: Volume['supports'] = {
  kinds: ['virtual-machine', 'container'],
  attach: ['virtual-machine'],
  shared: false,
  grow: true,
  clone: true,
}
const folder: Volume['supports'] = {
  kinds: ['bare-metal'],
  attach: ['bare-metal'],
  shared: true,
  grow: false,
  clone: false,
}

function volume(more: Partial<Volume> = {}): Volume {
  const plain = {
    status: 'active',
    meta: {},
    region: 'us-central-1',
    sizeGb: 512,
    growingToGb: null,
    nodeName: null,
    providerId: 'host',
    mounts: [],
    supports: disk,
  }
  return { ...plain, ...more } as unknown as Volume
}

function inactive(reason?: string): Volume {
  return volume({ status: 'inactive', meta: reason === undefined ? {} : { termination_reason: reason } })
}

function mounted(kind: Mounted['kind'], readOnly = false): Mounted {
  return { rentalId: 7, kind, name: 'brave-teal-otter', label: 'web', state: 'attached', path: '/data', readOnly }
}

test.each([
  [volume(), 'active'],
  [volume({ status: 'unknown' }), 'unknown'],
  [inactive(), 'creating'],
  [inactive('balance_empty'), 'suspended'],
  [inactive('engine_failure'), 'failed'],
  [inactive('customer_request'), 'deleting'],
])('%j is %s', (one, state) => expect(volumeState(one)).toBe(state))

test('actions not allowed in a state give the reason', () => {
  expect(whyNotAttach(inactive())).toBeUndefined()
  expect(whyNotAttach(inactive('balance_empty'))).toBe('The volume is suspended')
  expect(whyNotDelete(inactive('customer_request'))).toBe('The volume is deleting')
  expect(whyNotDelete(volume())).toBeUndefined()
  expect(whyNotGrow(inactive())).toBe('The volume is creating')
  expect(whyNotGrow(volume({ growingToGb: 1_024 }))).toContain('1,024 GB')
  expect(whyNotClone(volume({ growingToGb: 1_024 }))).toContain('1,024 GB')
  expect([whyNotGrow(volume()), whyNotClone(volume())]).toEqual([undefined, undefined])
})

test('actions that the engine does not have give the reason', () => {
  expect(whyNotGrow(volume({ supports: folder }))).toContain('cannot grow')
  expect(whyNotClone(volume({ supports: folder }))).toContain('cannot be copied')
  expect(whyNotAttach(volume({ supports: { ...folder, attach: [] } }))).toContain('when they are ordered')
})

test('a volume in use is freed by detaching it, or by ending what keeps it', () => {
  const attached = volume({ supports: folder, mounts: [mounted('bare-metal')] })
  expect(whyNotDelete(attached)).toBe('Detach the volume first')
  expect(whyNotDetach(attached, mounted('bare-metal'))).toBeUndefined()
  expect(whyNotAttach(attached)).toBeUndefined()
  const fixed = volume({ mounts: [mounted('container')] })
  expect(whyNotDelete(fixed)).toContain('Terminate web first')
  expect(whyNotDetach(fixed, mounted('container'))).toContain('until it ends')
  expect(whyNotAttach(fixed)).toContain('in use')
})

describe('orders', () => {
  const machine = { id: 'host-1', providerId: 'host' } as const

  test.each([
    ['of another region', volume({ region: 'jp-east-1' }), { kind: 'virtual-machine', region: 'us-central-1' }, false],
    ['of its region', volume(), { kind: 'virtual-machine', region: 'us-central-1' }, true],
    ['of a kind without volumes', volume(), { kind: 'bare-metal', region: 'us-central-1' }, false],
    ['on a machine outside of the regions for storage', volume(), { kind: 'container', region: 'lab', machine }, true],
    ['on another engine', volume({ providerId: 'mock' }), { kind: 'container', region: 'lab', machine }, false],
    ['on its machine', volume({ nodeName: 'host-1' }), { kind: 'container', region: 'lab', machine }, true],
    ['on another machine', volume({ nodeName: 'host-2' }), { kind: 'container', region: 'lab', machine }, false],
  ] as const)('%s', (_, one, place, isUsable) => expect(isUsableAt(one, place)).toBe(isUsable))

  test('one writer, or containers that all read', () => {
    const [write, read] = [
      { kind: 'container', readOnly: false },
      { kind: 'container', readOnly: true },
    ] as const
    expect(whyNotOrder(volume({ mounts: [mounted('container')] }), read)).toBe('in use by web')
    expect(whyNotOrder(volume({ mounts: [mounted('container', true)] }), write)).toBe('in use by web')
    expect(whyNotOrder(volume({ mounts: [mounted('container', true)] }), read)).toBeUndefined()
    expect(whyNotOrder(volume({ supports: folder, mounts: [mounted('bare-metal')] }), write)).toBeUndefined()
    expect(whyNotOrder(inactive(), write)).toBe('creating')
  })
})
