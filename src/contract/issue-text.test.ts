import { expect, test } from 'vitest'
import { z } from 'zod'
import { issueText } from './issue-text.ts'

const form = z.strictObject({
  name: z.string().min(3).max(5),
  label: z.string().min(1).optional(),
  one: z.string().length(1).optional(),
  count: z.int().min(1).max(8),
  share: z.number().gt(0).lt(1).optional(),
  step: z.number().multipleOf(5).optional(),
  tags: z.array(z.string()).min(1).max(2).optional(),
  kind: z.enum(['vm', 'metal']).optional(),
  type: z.literal('box').optional(),
  on: z.boolean().optional(),
  at: z.iso.datetime().optional(),
  day: z.iso.date().optional(),
  mail: z.email().optional(),
  own: z.string().regex(/^x$/, 'Must be an x').optional(),
})
const good = { name: 'abc', count: 1 }

test.each([
  [{ name: undefined }, 'Required'],
  [{ name: 7 }, 'Must be a string'],
  [{ name: 'ab' }, 'Must have at least 3 characters'],
  [{ name: 'abcdef' }, 'Must have at most 5 characters'],
  [{ label: '' }, 'Must not be empty'],
  [{ one: 'xy' }, 'Must have exactly 1 character'],
  [{ count: 'x' }, 'Must be a number'],
  [{ count: 1.5 }, 'Must be a whole number'],
  [{ count: 0 }, 'Must be at least 1'],
  [{ count: 9 }, 'Must be at most 8'],
  [{ share: 0 }, 'Must be more than 0'],
  [{ share: 1 }, 'Must be less than 1'],
  [{ step: 7 }, 'Must be a multiple of 5'],
  [{ tags: [] }, 'Must not be empty'],
  [{ tags: ['a', 'b', 'c'] }, 'Must have at most 2 entries'],
  [{ tags: 'a' }, 'Must be a list'],
  [{ kind: 'cloud' }, 'Must be one of vm, metal'],
  [{ type: 'bag' }, 'Must be "box"'],
  [{ on: 'yes' }, 'Must be true or false'],
  [{ at: 'noon' }, 'Must be a time such as 2026-11-01T12:00:00Z'],
  [{ day: '2026-02-30' }, 'Must be a date such as 2026-11-01'],
  [{ mail: 'ada' }, 'Must be an email address'],
  [{ own: 'y' }, 'Must be an x'],
  [
    { other: 1 },
    'Unknown key; allowed: name, label, one, count, share, step, tags, kind, type, on, at, day, mail, own',
  ],
])('%j: %s', (fault, words) => {
  const parsed = form.safeParse({ ...good, ...fault }, { error: issueText })
  expect(parsed.error?.issues.map(({ message }) => message)).toEqual([words])
})
