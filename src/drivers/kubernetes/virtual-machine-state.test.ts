import { expect, test } from 'vitest'
import { instantOf } from '../../base/instant.ts'
import { showVirtualMachine } from './virtual-machine-state.ts'

const now = instantOf(1_800_000_000_000)
const ids = { externalId: 'lab/ns/vm', tag: 'berth-x-1-c0ffee00' }

function show(status: object, instance?: object, reach: { isReady: boolean; seenAt?: typeof now } = { isReady: true }) {
  const instanceObject = instance === undefined ? undefined : { metadata: { name: 'vm', uid: 'u1' }, status: instance }
  const {
    externalId: _,
    tag: __,
    ...machine
  } = showVirtualMachine({ metadata: { name: 'vm' }, status }, instanceObject, ids, {
    reach,
    now,
    relayHost: 'relay.example',
  })
  return machine
}

test('a machine runs when its instance does, and each restart is another incarnation', () => {
  expect(show({ printableStatus: 'Stopped' })).toEqual({ state: 'starting' })
  expect(show({ printableStatus: 'Starting' }, { phase: 'Scheduling' })).toEqual({ state: 'starting' })
  expect(show({ printableStatus: 'Running' }, { phase: 'Running', nodeName: 'n' })).toEqual({
    state: 'running',
    incarnation: 'u1',
  })
})

test('a guest that crashed, powered off or cannot start has failed, with the reason', () => {
  expect(show({ printableStatus: 'Stopped' }, { phase: 'Failed' })).toMatchObject({ failure: 'crashed' })
  expect(show({ printableStatus: 'Stopped' }, { phase: 'Succeeded' })).toMatchObject({ failure: 'powered_off' })
  const conditions = [{ type: 'Ready', status: 'False', message: 'no such manifest' }]
  expect(show({ printableStatus: 'ImagePullBackOff', conditions })).toEqual({
    state: 'failed',
    failure: 'bad_base_image',
    message: 'No such manifest.',
  })
})

test('on a node that does not report it is unreachable, since the last report', () => {
  const seenAt = instantOf(now - 60_000)
  const lost = show({ printableStatus: 'Running' }, { phase: 'Running', nodeName: 'n' }, { isReady: false, seenAt })
  expect(lost).toMatchObject({ state: 'unreachable', seenAt })
})
