import { describe, expect, test } from 'vitest'
import { defaultQuota } from '../base/limits.ts'
import { mergeQuota, quotaExceeded, quotaOf } from './quota.ts'

describe('quota', () => {
  test('uses the default where the operator has set nothing', () => {
    expect(quotaOf({})).toEqual(defaultQuota)
    expect(quotaOf({ keys: 3 })).toEqual({ ...defaultQuota, keys: 3 })
  })

  test('a change keeps other fields, and stores only values that differ from the default', () => {
    expect(mergeQuota({ keys: 3 }, { gpus: 1_000 })).toEqual({ keys: 3, gpus: 1_000 })
    expect(mergeQuota({ keys: 3, gpus: 7 }, { keys: defaultQuota.keys, gpus: undefined })).toEqual({ gpus: 7 })
    expect(mergeQuota({}, { gpus: 0 })).toEqual({ gpus: 0 })
  })

  test('a rejection gives the limit', () => {
    expect(quotaExceeded('sshKeys', quotaOf({ sshKeys: 2 }))).toMatchObject({
      kind: 'forbidden',
      reason: 'quota_exceeded',
      message: expect.stringContaining('2 SSH keys') as string,
    })
  })
})
