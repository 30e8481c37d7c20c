/** Text out of the bytes of tokens. */
import { expect, test } from 'vitest'
import { AnswerText } from './answer-text.ts'

test('a character comes out when its last byte is there, together with all its tokens', () => {
  const text = new AnswerText<number>([])
  const [a = 0, b = 0, c = 0, d = 0] = Buffer.from('😀')
  expect(text.push(Buffer.of(0x61, a), 1)).toEqual({ text: 'a', tokens: [1], stopped: false })
  expect(text.push(Buffer.of(b, c), 2)).toEqual({ text: '', tokens: [], stopped: false })
  expect(text.push(Buffer.of(d), 3)).toEqual({ text: '😀', tokens: [2, 3], stopped: false })
  expect(text.offset).toBe(3)
})

test('bytes that are no character are shown as one that says so', () => {
  const text = new AnswerText<number>([])
  expect(text.push(Buffer.of(0xff), 1).text).toBe('\uFFFD')
  expect(text.push(Buffer.of(0xe2), 2)).toMatchObject({ text: '', tokens: [] })
  expect(text.end()).toEqual({ text: '\uFFFD', tokens: [2], stopped: false })
})

test('a byte order mark in the middle of an answer stays', () => {
  const text = new AnswerText<number>([])
  expect(text.push(Buffer.from('\uFEFFa')).text).toBe('\uFEFFa')
})

test('tokens of which all lies in the stop text are left out, one of which a part lies before it is not', () => {
  const text = new AnswerText<number>(['xyz'])
  expect(text.push(Buffer.from('ax'), 1)).toMatchObject({ text: 'a', tokens: [1] })
  expect(text.push(Buffer.from('y'), 2)).toMatchObject({ text: '', tokens: [] })
  expect(text.push(Buffer.from('z'), 3)).toEqual({ text: '', tokens: [], stopped: true })
  expect(text.end()).toMatchObject({ text: '', tokens: [] })
})

test('at the end, what was held back for a stop text comes out with its tokens', () => {
  const text = new AnswerText<number>(['xyz'])
  text.push(Buffer.from('x'), 1)
  text.push(Buffer.from('y'), 2)
  expect(text.end()).toEqual({ text: 'xy', tokens: [1, 2], stopped: false })
})
