/** Converting token bytes to text. */
import { expect, test } from 'vitest'
import { AnswerText } from './answer-text.ts'

test('emits a character with all its tokens once its last byte arrives', () => {
  const text = new AnswerText<number>([])
  const [a = 0, b = 0, c = 0, d = 0] = Buffer.from('😀')
  expect(text.push(Buffer.of(0x61, a), 1)).toEqual({ text: 'a', tokens: [1], stopped: false })
  expect(text.push(Buffer.of(b, c), 2)).toEqual({ text: '', tokens: [], stopped: false })
  expect(text.push(Buffer.of(d), 3)).toEqual({ text: '😀', tokens: [2, 3], stopped: false })
  expect(text.offset).toBe(3)
})

test('replaces invalid bytes with U+FFFD', () => {
  const text = new AnswerText<number>([])
  expect(text.push(Buffer.of(0xff), 1).text).toBe('\uFFFD')
  expect(text.push(Buffer.of(0xe2), 2)).toMatchObject({ text: '', tokens: [] })
  expect(text.end()).toEqual({ text: '\uFFFD', tokens: [2], stopped: false })
})

test('keeps a byte order mark inside an answer', () => {
  const text = new AnswerText<number>([])
  expect(text.push(Buffer.from('\uFEFFa')).text).toBe('\uFEFFa')
})

test('drops tokens entirely inside the stop text and keeps one that starts before it', () => {
  const text = new AnswerText<number>(['xyz'])
  expect(text.push(Buffer.from('ax'), 1)).toMatchObject({ text: 'a', tokens: [1] })
  expect(text.push(Buffer.from('y'), 2)).toMatchObject({ text: '', tokens: [] })
  expect(text.push(Buffer.from('z'), 3)).toEqual({ text: '', tokens: [], stopped: true })
  expect(text.end()).toMatchObject({ text: '', tokens: [] })
})

test('emits held-back text with its tokens at the end', () => {
  const text = new AnswerText<number>(['xyz'])
  text.push(Buffer.from('x'), 1)
  text.push(Buffer.from('y'), 2)
  expect(text.end()).toEqual({ text: 'xy', tokens: [1, 2], stopped: false })
})
