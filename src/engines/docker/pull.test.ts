import { expect, test } from 'vitest'
import { NeverStarts } from '../runtime.ts'
import { parseImageName } from './image-name.ts'
import { pullFault, pullTally } from './pull.ts'
import type { PullLine } from './reply.ts'

const line = (id: string, status: string, current?: number, total?: number): PullLine => ({
  id,
  status,
  progressDetail: { ...(current === undefined ? {} : { current }), ...(total === undefined ? {} : { total }) },
})

test('progress is the sum of the layers, and a countdown to another try is none', () => {
  const tally = pullTally('debian:12')
  expect(tally.take(line('a', 'Pulling fs layer'))).toBe(true)
  expect(tally.message()).toBe('pulling debian:12')
  expect(tally.take(line('a', 'Downloading', 30_000_000, 100_000_000))).toBe(true)
  expect(tally.take(line('b', 'Downloading', 4_000_000, 20_000_000))).toBe(true)
  expect(tally.message()).toBe('pulling debian:12, 34 of 120 MB')
  expect(tally.take(line('b', 'Downloading', 4_000_000, 20_000_000))).toBe(false)
  expect(tally.take(line('b', 'Retrying in 5 seconds'))).toBe(false)
  expect(tally.take(line('b', 'Retrying in 4 seconds'))).toBe(false)
  tally.take(line('b', 'Download complete'))
  expect(tally.message()).toBe('pulling debian:12, 50 of 120 MB')
  tally.take(line('a', 'Download complete'))
  tally.take(line('a', 'Extracting', 1_000_000, 100_000_000))
  expect(tally.message()).toBe('unpacking debian:12, 120 MB')
})

test.each([
  ['manifest for debian:99 not found: manifest unknown: manifest unknown', 'image_not_found'],
  ["pull access denied for nothing, repository does not exist or may require 'docker login'", 'image_not_found'],
  ['no matching manifest for linux/arm64/v8 in the manifest list entries', 'image_not_found'],
  ['unauthorized: authentication required', 'image_refused'],
  ['Get "https://r.example/v2/": no basic auth credentials', 'image_refused'],
  ['toomanyrequests: You have reached your unauthenticated pull rate limit', undefined],
  ['dial tcp 192.0.2.1:443: i/o timeout', undefined],
  ['write /var/lib/docker/tmp/x: no space left on device', undefined],
])('%s: %s', (message, reason) => {
  const fault = pullFault(parseImageName('debian', '12'), message)
  expect(fault instanceof NeverStarts ? fault.reason : undefined).toBe(reason)
})
