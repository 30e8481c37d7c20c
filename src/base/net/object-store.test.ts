import { expect, test } from 'vitest'
import { instantOf } from '../instant.ts'
import { objectUrl, presign } from './object-store.ts'

const store = {
  url: 'https://s3.test/base',
  region: 'us-east-1',
  accessKey: 'AKIAIOSFODNN7EXAMPLE',
  secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
}

test('a link has the signature of the example in the documentation of S3', () => {
  const url = new URL('https://examplebucket.s3.amazonaws.com/test.txt')
  const link = new URL(presign(store, url, instantOf(Date.UTC(2013, 4, 24)), 86_400))
  expect(link.searchParams.get('X-Amz-Date')).toBe('20130524T000000Z')
  expect(link.searchParams.get('X-Amz-Signature')).toBe(
    'aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
  )
})

test('keys are encoded part by part', () => {
  expect(objectUrl(store, 'models', "a b/c+d'(1).bin").href).toBe(
    'https://s3.test/base/models/a%20b/c%2Bd%27%281%29.bin',
  )
})
