import { expect, test } from 'vitest'
import { pullFaultOf, pullTally } from './pull.ts'
import type { PullLine } from './reply.ts'

const line = (id: string, status: string, current?: number, total?: number): PullLine => ({
  id,
  status,
  progressDetail: { ...(current === undefined ? {} : { current }), ...(total === undefined ? {} : { total }) },
})

test('progress is the sum of the layers, without retry countdowns', () => {
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
  ['manifest for debian:99 not found: manifest unknown: manifest unknown', 'no_such_image'],
  ["pull access denied for nothing, repository does not exist or may require 'docker login'", 'no_such_image'],
  ['no matching manifest for linux/arm64/v8 in the manifest list entries', 'no_such_platform'],
  ['unauthorized: authentication required', 'refused'],
  ['Get "https://r.example/v2/": no basic auth credentials', 'refused'],
  ['toomanyrequests: You have reached your unauthenticated pull rate limit', 'broken'],
  ['dial tcp: lookup registry-1.docker.io on 10.0.0.2:53: no such host', 'unreachable'],
  ['dial tcp 192.0.2.1:443: connect: connection refused', 'unreachable'],
  ['dial tcp 192.0.2.1:443: i/o timeout', 'unreachable'],
  ['write tcp 192.0.2.2:5000: write: broken pipe', 'unreachable'],
  ['write /var/lib/docker/tmp/x: no space left on device', 'broken'],
])('%s: %s', (message, fault) => {
  expect(pullFaultOf(message, false)).toBe(fault)
})

test('retries a connection that breaks during a pull', () => {
  expect(pullFaultOf('read tcp 192.0.2.1:443: i/o timeout', true)).toBe('broken')
})
