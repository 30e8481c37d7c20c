import { describe, expect, test } from 'vitest'
import { readRequest } from './request.ts'

test('applies the defaults of the interface and a random seed', () => {
  const read = readRequest({ model_name: 'any', prompt: 'a cup', seed: null })
  expect(read).toMatchObject({
    ok: true,
    value: { prompt: 'a cup', negativePrompt: '', width: 1_024, height: 1_024, steps: 30, cfgScale: 5, stream: false },
  })
  const drawn = Array.from({ length: 20 }, () => {
    const one = readRequest({ prompt: 'a cup' })
    return one.ok ? one.value.seed : NaN
  })
  expect(drawn.every((seed) => Number.isSafeInteger(seed) && seed >= 0)).toBe(true)
  expect(new Set(drawn).size).toBe(20)
})

test('accepts the ends of each range', () => {
  const least = {
    prompt: '👍',
    width: 128,
    height: 2_496,
    steps: 1,
    cfg_scale: 0,
    seed: 1 - 2 ** 53,
    negative_prompt: '',
  }
  expect(readRequest(least)).toMatchObject({
    ok: true,
    value: { width: 128, height: 2_496, seed: 1 - 2 ** 53, cfgScale: 0 },
  })
  const most = { prompt: 'x'.repeat(10_000), steps: 1_000, cfg_scale: 50, seed: 2 ** 53 - 1, stream: true }
  expect(readRequest(most)).toMatchObject({ ok: true, value: { steps: 1_000, seed: 2 ** 53 - 1, stream: true } })
})

test('has unfinished images only in a stream', () => {
  const body = { prompt: 'a cup', partial_images: 3 }
  expect(readRequest({ ...body, stream: true })).toMatchObject({ ok: true, value: { partialImages: 3 } })
  expect(readRequest(body)).toMatchObject({ ok: true, value: { partialImages: 0 } })
  expect(readRequest({ prompt: 'a cup', stream: true })).toMatchObject({ ok: true, value: { partialImages: 0 } })
})

describe('names the field of an invalid value', () => {
  test.each<[object, string, RegExp]>([
    [{ prompt: '' }, 'prompt', /must contain text/],
    [{ prompt: ' \n\u200b\u0301' }, 'prompt', /must contain text/],
    [{ prompt: 'x'.repeat(10_001) }, 'prompt', /10000 characters/],
    [{ prompt: undefined }, 'prompt', /text/],
    [{ prompt: ['a cup'] }, 'prompt', /text/],
    [{ negative_prompt: 'x'.repeat(10_001) }, 'negative_prompt', /10000 characters/],
    [{ width: 127 }, 'width', /128 to 2496/],
    [{ width: 2_497 }, 'width', /128 to 2496/],
    [{ height: 512.5 }, 'height', /128 to 2496/],
    [{ height: '512' }, 'height', /128 to 2496/],
    [{ height: null }, 'height', /128 to 2496/],
    [{ steps: 0 }, 'steps', /1 to 1000/],
    [{ steps: 1_001 }, 'steps', /1 to 1000/],
    [{ cfg_scale: -0.1 }, 'cfg_scale', /0 to 50/],
    [{ cfg_scale: 50.1 }, 'cfg_scale', /0 to 50/],
    [{ seed: 0.5 }, 'seed', /2\^53/],
    [{ seed: -(2 ** 53) }, 'seed', /2\^53/],
    [{ seed: 2 ** 53 }, 'seed', /2\^53/],
    [{ stream: 'yes' }, 'stream', /true or false/],
    [{ partial_images: 4 }, 'partial_images', /0 to 3/],
    [{ partial_images: -1 }, 'partial_images', /0 to 3/],
  ])('%j', (fields, name, message) => {
    const read = readRequest({ prompt: 'a cup', ...fields })
    expect(read).toMatchObject({ ok: false, kind: 'invalid', issues: [{ path: [name] }] })
    expect((read as { message: string }).message).toMatch(message)
  })
})
