import { expect, test } from 'vitest'
import { z } from 'zod'
import { ok } from '../contract/result.ts'
import { readFields } from './engine-http.ts'

test('names the invalid field of a body', () => {
  const form = z.object({ list: z.array(z.string()) })
  expect(readFields(form, { list: ['a'] })).toEqual(ok({ list: ['a'] }))
  expect(readFields(form, { list: ['a', 1] })).toMatchObject({ kind: 'invalid', issues: [{ path: ['list', 1] }] })
  expect(readFields(form, 'text')).toMatchObject({ kind: 'invalid', issues: [{ path: ['body'] }] })
})
