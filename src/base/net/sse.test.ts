import { expect, test } from 'vitest'
import { formatSse, sseHeartbeat } from './sse.ts'

test.each([
  [{ data: 'one' }, 'data: one\n\n'],
  [{ data: '' }, 'data: \n\n'],
  [{ id: '7', data: 'one' }, 'id: 7\ndata: one\n\n'],
  [{ id: '7', event: 'rental.running', data: '{"a":1}' }, 'id: 7\nevent: rental.running\ndata: {"a":1}\n\n'],
  [{ data: 'one\ntwo\n' }, 'data: one\ndata: two\ndata: \n\n'],
])('%j', (message, text) => {
  expect(formatSse(message)).toBe(text)
})

test('a heartbeat is a comment, which readers ignore', () => {
  expect(sseHeartbeat).toMatch(/^:[^\n]*\n\n$/)
})
