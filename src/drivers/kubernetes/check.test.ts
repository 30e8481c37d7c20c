import { expect, test } from 'vitest'
import { networkResult } from './check.ts'
import { podObject } from './objects.ts'

const ended = (phase: string, terminated?: { exitCode: number; reason: string }) =>
  podObject.parse({
    metadata: { name: 'client' },
    status: { phase, containerStatuses: [{ name: 'main', ...(terminated && { state: { terminated } }) }] },
  })

test.each([
  ['a probe that reached the other account shows that policies are not enforced', ended('Succeeded'), 'not_enforced'],
  [
    'a probe that found the port closed shows that they are',
    ended('Failed', { exitCode: 42, reason: 'Error' }),
    'enforced',
  ],
  ['a probe that was killed has tried nothing', ended('Failed', { exitCode: 137, reason: 'OOMKilled' }), 'not_tried'],
  ['a probe without a shell has tried nothing', ended('Failed', { exitCode: 127, reason: 'StartError' }), 'not_tried'],
  ['a probe that was evicted has tried nothing', ended('Failed'), 'not_tried'],
  ['a probe that never ended has tried nothing', ended('Running'), 'not_tried'],
  ['a probe that is gone has tried nothing', undefined, 'not_tried'],
])('%s', (_, pod, result) => {
  expect(networkResult(pod)).toMatchObject({ check: 'network_policy', result })
})
