import { describe, expect, test } from 'vitest'
import { PodFollower } from './cluster-view.ts'
import { podObject } from './objects.ts'

const open = new AbortController().signal
const pod = (nodeName?: string) =>
  podObject.parse({ metadata: { name: 'p', namespace: 'n' }, spec: { containers: [], nodeName } })

describe('a followed pod', () => {
  test('is told in its newest state, once', async () => {
    const follower = new PodFollower(() => {})
    follower.take(pod())
    follower.take(pod('node-1'))
    expect((await follower.next(1_000, open))?.spec?.nodeName).toBe('node-1')
    expect(await follower.next(1, open)).toBeUndefined()
  })

  test('wakes whoever waits for it', async () => {
    const follower = new PodFollower(() => {})
    const next = follower.next(60_000, open)
    follower.take(pod('node-2'))
    expect((await next)?.spec?.nodeName).toBe('node-2')
  })

  test('ends the wait with the call', async () => {
    const call = new AbortController()
    const next = new PodFollower(() => {}).next(60_000, call.signal)
    call.abort()
    await expect(next).rejects.toThrow('aborted')
  })
})
