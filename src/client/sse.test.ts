/** Messages of `formatSse` are parsed again, wherever chunks end. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatSse, sseHeartbeat } from '../base/net/sse.ts'
import { makeSseReader } from './sse.ts'

/** The format cannot carry line endings inside a field. */
const line = fc.string().filter((text) => !/[\r\n]/.test(text))
const message = fc.record(
  { id: line, event: line, data: fc.array(line, { minLength: 1, maxLength: 3 }).map((lines) => lines.join('\n')) },
  { requiredKeys: ['data'] },
)

test('round-trips messages in chunks of any size', () => {
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

test.each(['\n', '\r\n', '\r'])('accepts lines that end in %j', (end) => {
  const reader = makeSseReader()
  const text = ['id: 1', 'data: a', 'data: b', '', ': still here', '', 'data:c', '', ''].join(end)
  const read = text.split('').flatMap((character) => reader.push(character))
  expect([...read, ...reader.push('\n')]).toEqual([{ id: '1', data: 'a\nb' }, { data: 'c' }])
})

test.each([
  ['a line', 'x'.repeat(100_000)],
  ['a message', `data: ${'x'.repeat(100_000)}\n`],
])('%s without end is refused instead of kept', (_, part) => {
  const reader = makeSseReader()
  expect(() => {
    for (let n = 0; n < 20; n += 1) reader.push(part)
  }).toThrow(RangeError)
})

test('limits the length of each message, not the total', () => {
  const message = `data: ${'x'.repeat(90)}\n\n`
  const reader = makeSseReader(100)
  expect(Array.from({ length: 50 }, () => reader.push(message)).flat()).toHaveLength(50)
  expect(() => reader.push(`data: ${'x'.repeat(100)}`)).toThrow(RangeError)
})

test('reads a message of megabytes from packet-sized chunks', () => {
  const data = 'picture '.repeat(1_250_000)
  const text = formatSse({ data })
  const reader = makeSseReader(16 * 1_048_576)
  const size = 1_400
  const read = Array.from({ length: Math.ceil(text.length / size) }, (_, n) =>
    reader.push(text.slice(n * size, (n + 1) * size)),
  ).flat()
  expect(read.map((message) => message.data === data)).toEqual([true])
})
