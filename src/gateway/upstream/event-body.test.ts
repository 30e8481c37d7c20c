import { describe, expect, test } from 'vitest'
import { EventBody, type MediaProgress } from './event-body.ts'

const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const picture = { images: [{ index: 0, image: 'iVBOR', random_seed: 7 }], notes: ['größer'] }
const stream =
  ': comment\n\n' +
  event({ type: 'queued', ahead: 2 }) +
  event({ type: 'progress', step: 1, steps: 2 }) +
  event({ type: 'partial', image: 'iVBOR' }) +
  event({ type: 'progress', step: 2, steps: 2 }) +
  event({ type: 'result', ...picture }) +
  'data: [DONE]\n\n'

function read(pieces: readonly Buffer[]): { reported: MediaProgress[]; body: EventBody } {
  const reported: MediaProgress[] = []
  const body = new EventBody((progress) => reported.push(progress))
  // A connection reuses its read buffer, so anything kept must be a copy.
  for (const piece of pieces) {
    const shared = Buffer.from(piece)
    body.push(shared)
    shared.fill(0)
  }
  return { reported, body }
}

const progress = [
  { type: 'queued', ahead: 2 },
  { type: 'progress', step: 1, steps: 2 },
  { type: 'partial', image: 'iVBOR' },
  { type: 'progress', step: 2, steps: 2 },
]

test('reports progress in order, and the result as a plain body', () => {
  const { reported, body } = read([Buffer.from(stream)])
  expect(reported).toEqual(progress)
  expect(body.answer?.status).toBe(200)
  expect(JSON.parse(body.answer?.body.toString() ?? '')).toEqual({ type: 'result', ...picture })
})

test('reads the same however packets are cut', () => {
  const bytes = Buffer.from(stream)
  for (let size = 1; size < 9; size++) {
    const count = Math.ceil(bytes.length / size)
    const { reported, body } = read(Array.from({ length: count }, (_, n) => bytes.subarray(n * size, (n + 1) * size)))
    expect(reported).toEqual(progress)
    expect(JSON.parse(body.answer?.body.toString() ?? '')).toEqual({ type: 'result', ...picture })
  }
})

test('reads an image of many megabytes in one pass', () => {
  const image = 'A'.repeat(24_000_000)
  const bytes = Buffer.from(event({ type: 'result', images: [{ image }] }))
  const packet = 65_536
  const { body } = read(
    Array.from({ length: Math.ceil(bytes.length / packet) }, (_, n) => bytes.subarray(n * packet, (n + 1) * packet)),
  )
  expect(body.answer?.body.length).toBeGreaterThan(image.length)
})

describe('an engine that', () => {
  test.each([
    ['invalid_request_error', 400],
    ['server_error', 500],
    [undefined, 500],
  ])('says %s is taken for status %i', (type, status) => {
    const text = event({ type: 'error', error: { message: 'no such seed', type, param: 'seed', code: null } })
    const { body } = read([Buffer.from(text)])
    expect(body.answer?.status).toBe(status)
  })

  test('sends invalid events is ignored', () => {
    const odd = [
      { type: 'progress', step: -1, steps: 2 },
      { type: 'progress', step: 'many', steps: 2 },
      { type: 'queued' },
      { type: 'dream' },
      ['result'],
      'result',
    ]
    const { reported, body } = read([Buffer.from(`${odd.map(event).join('')}data: {"type":"resu\n\nevent: result\n\n`)])
    expect([reported, body.answer]).toEqual([[], undefined])
  })

  test('continues after the end is ignored', () => {
    const { reported, body } = read([Buffer.from(stream + event({ type: 'error', error: {} }) + stream)])
    expect(reported).toEqual(progress)
    expect(body.answer?.status).toBe(200)
  })
})
