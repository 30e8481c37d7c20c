import { expect, test } from 'vitest'
import { instantOf } from '../../base/instant.ts'
import { openaiImageEvents } from './image-events.ts'

const clock = { now: () => instantOf(1_700_000_000_999) }
const sides = { width: 256, height: 128 }
const shared = { size: '256x128', quality: 'auto', background: 'auto', output_format: 'png' }

function read(text: string): Array<{ name: string; data: unknown }> {
  return text
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => {
      const [, name = '', data = ''] = /^event: (\S+)\ndata: (.+)$/.exec(event) ?? []
      return { name, data: JSON.parse(data) as unknown }
    })
}

function partial(index: number, b64_json: string): { name: string; data: object } {
  const type = 'image_generation.partial_image'
  return { name: type, data: { type, b64_json, created_at: 1_700_000_000, partial_image_index: index, ...shared } }
}

test('numbers unfinished images in the order in which they are sent, and has no event for other progress', () => {
  const events = openaiImageEvents(sides, clock)
  events.note({ type: 'queued', ahead: 1 })
  events.note({ type: 'progress', step: 1, steps: 2 })
  expect(events.progress()).toBe('')
  events.note({ type: 'partial', image: 'first' })
  expect(read(events.progress())).toEqual([partial(0, 'first')])
  expect(events.progress()).toBe('')
  // This one could not be sent before the next came.
  events.note({ type: 'partial', image: 'second' })
  events.note({ type: 'partial', image: 'third' })
  events.note({ type: 'progress', step: 2, steps: 2 })
  expect(read(events.progress())).toEqual([partial(1, 'third')])
})

test('ends with each image, its seed and the notes about the prompt, without an unfinished image that is late', () => {
  const events = openaiImageEvents(sides, clock)
  events.note({ type: 'partial', image: 'late' })
  const images = [
    { index: 0, image: 'one', random_seed: 7 },
    { index: 1, image: 'two', random_seed: 8 },
  ]
  const type = 'image_generation.completed'
  const usage = {
    input_tokens: 0,
    output_tokens: 0,
    total_tokens: 0,
    input_tokens_details: { image_tokens: 0, text_tokens: 0 },
  }
  const completed = { type, created_at: 5, ...shared, usage, notes: ['größer'] }
  const text = Buffer.from(events.result({ images, created: 5, notes: ['größer'] }), 'latin1').toString()
  expect(read(text)).toEqual([
    { name: type, data: { ...completed, b64_json: 'one', random_seed: 7 } },
    { name: type, data: { ...completed, b64_json: 'two', random_seed: 8 } },
  ])
})
