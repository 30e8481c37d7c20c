/** Whatever `formatSse` writes is read back, wherever the chunks end. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatSse, sseHeartbeat } from '../base/sse.ts'
import { makeSseReader } from './sse.ts'

/** A line ending inside a field is the one thing that the format cannot carry. */
const line = fc.string().filter((text) => !/[\r\n]/.test(text))
const message = fc.record(
  { id: line, event: line, data: fc.array(line, { minLength: 1, maxLength: 3 }).map((lines) => lines.join('\n')) },
  { requiredKeys: ['data'] },
)

test('messages are read back as they were written, in chunks of any size', () => {
  fc.assert(
    fc.property(fc.array(message), fc.integer({ min: 1, max: 7 }), (messages, size) => {
      const text = messages.map((one) => formatSse(one) + sseHeartbeat).join('')
      const reader = makeSseReader()
      const chunks = Array.from({ length: Math.ceil(text.length / size) }, (_, n) =>
        text.slice(n * size, (n + 1) * size),
      )
      expect(chunks.flatMap((chunk) => reader.push(chunk))).toEqual(messages)
    }),
  )
})

test.each(['\n', '\r\n', '\r'])('lines may end in %j', (end) => {
  const reader = makeSseReader()
  const text = ['id: 1', 'data: a', 'data: b', '', ': still here', '', 'data:c', '', ''].join(end)
  const read = text.split('').flatMap((character) => reader.push(character))
  expect([...read, ...reader.push('\n')]).toEqual([{ id: '1', data: 'a\nb' }, { data: 'c' }])
})

test('a line without end is refused instead of kept', () => {
  const reader = makeSseReader()
  expect(() => {
    for (let n = 0; n < 20; n += 1) reader.push('x'.repeat(100_000))
  }).toThrow(RangeError)
})
