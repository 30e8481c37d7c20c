import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { assertLocal, whyNotLocal } from './local-folder.ts'

const log = { info: () => {}, warn: () => {} }

test('rejects network and FUSE file systems', () => {
  // The numbers of `stat -f --format=%t`; on some machines statfs returns those above 2^31 as negative.
  expect(whyNotLocal(0x6969)).toBe('NFS')
  expect(whyNotLocal(0xff534d42)).toBe('CIFS')
  expect(whyNotLocal(0xff534d42 | 0)).toBe('CIFS')
  expect(whyNotLocal(0x65735546)).toBe('FUSE')
  expect(whyNotLocal(0xef53)).toBeUndefined()
})

test('rejects a path that would need quoting', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth storage '))
  try {
    await expect(assertLocal(folder, log)).rejects.toThrow('has characters in its path')
  } finally {
    fs.rmdirSync(folder)
  }
})
