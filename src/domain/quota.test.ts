import { describe, expect, test } from 'vitest'
import { defaultQuota } from '../base/limits.ts'
import { mergeQuota, quotaExceeded, quotaOf } from './quota.ts'

describe('quota', () => {
  test('what the operator has not set is the default', () => {
    expect(quotaOf({})).toEqual(defaultQuota)
    expect(quotaOf({ keys: 3 })).toEqual({ ...defaultQuota, keys: 3 })
  })

  test('a change keeps what it does not name, and stores only what differs from the default', () => {
    expect(mergeQuota({ keys: 3 }, { gpus: 1_000 })).toEqual({ keys: 3, gpus: 1_000 })
    expect(mergeQuota({ keys: 3, gpus: 7 }, { keys: defaultQuota.keys, gpus: undefined })).toEqual({ gpus: 7 })
    expect(mergeQuota({}, { gpus: 0 })).toEqual({ gpus: 0 })
  })

  test('a refusal says how many there may be', () => {
    expect(quotaExceeded('sshKeys', quotaOf({ sshKeys: 2 }))).toMatchObject({
      kind: 'forbidden',
      reason: 'quota_exceeded',
      message: expect.stringContaining('2 SSH keys') as string,
    })
  })
})
