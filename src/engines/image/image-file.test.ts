import sharp from 'sharp'
import { describe, expect, test } from 'vitest'
import { gaussianNoise } from './noise.ts'
import { writePng } from './image-file.ts'

const NATIVE = 64
const GROUND = [20, 120, 200]
const DISC = [250, 220, 30]

/** A centered disc of half the width on a plain background. The bottom rows have the disc's color. */
const square = Uint8Array.from({ length: 3 * NATIVE ** 2 }, (_, i) => {
  const [x, y] = [Math.floor(i / 3) % NATIVE, Math.floor(i / 3 / NATIVE)]
  const isDisc = Math.hypot(x + 0.5 - NATIVE / 2, y + 0.5 - NATIVE / 2) < NATIVE / 4 || y >= NATIVE - 4
  return (isDisc ? DISC : GROUND)[i % 3] ?? 0
})

async function read(png: Uint8Array): Promise<(x: number, y: number) => number[]> {
  const { data, info } = await sharp(png).raw().toBuffer({ resolveWithObject: true })
  expect(info.channels).toBe(3)
  return (x, y) => [...data.subarray(3 * (y * info.width + x), 3 * (y * info.width + x) + 3)]
}

function isNear(a: readonly number[], b: readonly number[]): boolean {
  return a.every((value, i) => Math.abs(value - (b[i] ?? NaN)) < 60)
}

describe('an image', () => {
  test.each([
    [64, 64],
    [1_024, 768],
    [129, 500],
    [128, 2_496],
    [2_496, 131],
  ])('of %d by %d has that size and shows the whole disc, round and centered', async (width, height) => {
    const png = await writePng(square, NATIVE, { width, height })
    expect(await sharp(png).metadata()).toMatchObject({ format: 'png', width, height, hasAlpha: false })
    const at = await read(png)
    const across = Array.from({ length: width }, (_, x) => x).filter((x) => isNear(at(x, Math.floor(height / 2)), DISC))
    const down = Array.from({ length: Math.floor(height / 2) }, (_, y) => y).filter((y) =>
      isNear(at(Math.floor(width / 2), y), DISC),
    )
    // Rounding moves the edge by a pixel or two.
    const diameter = Math.min(width, height) / 2
    expect(Math.abs(across.length - diameter)).toBeLessThanOrEqual(0.05 * diameter + 2)
    expect(Math.abs(down.length - diameter / 2)).toBeLessThanOrEqual(0.05 * diameter + 2)
    expect(Math.abs((across[0] ?? NaN) + (across.at(-1) ?? NaN) - (width - 1))).toBeLessThanOrEqual(2)
  })

  test('continues its edges at the sides', async () => {
    const wide = await read(await writePng(square, NATIVE, { width: 200, height: 64 }))
    const tall = await read(await writePng(square, NATIVE, { width: 64, height: 200 }))
    for (const x of [0, 30, 67, 132, 199]) {
      expect(wide(x, 10)).toEqual(GROUND)
      expect(wide(x, 63)).toEqual(DISC)
    }
    for (const y of [0, 30, 67]) expect(tall(5, y)).toEqual(GROUND)
    for (const y of [131, 199]) expect(tall(5, y)).toEqual(DISC)
  })

  test('omits the rim, which the decoder leaves uneven', async () => {
    const side = 256
    const rimmed = Uint8Array.from({ length: 3 * side ** 2 }, (_, i) => {
      const [x, y] = [Math.floor(i / 3) % side, Math.floor(i / 3 / side)]
      const isRim = Math.min(x, y, side - 1 - x, side - 1 - y) < 2
      return (isRim ? DISC : GROUND)[i % 3] ?? 0
    })
    const at = await read(await writePng(rimmed, side, { width: 200, height: 128 }))
    for (const [x, y] of [
      [0, 0],
      [36, 0],
      [199, 127],
      [100, 127],
    ] as const)
      expect(at(x, y)).toEqual(GROUND)
  })

  test('has no stripes or seam beside a slightly uneven background', async () => {
    const noise = gaussianNoise(5, square.length)
    const uneven = square.map((value, i) => value + Math.max(-5, Math.min(5, Math.round(2 * (noise[i] ?? 0)))))
    const at = await read(await writePng(uneven, NATIVE, { width: 200, height: 64 }))
    const rows = Array.from({ length: 50 }, (_, y) => y + 5)
    const spread = (x: number): number => {
      const reds = rows.map((y) => at(x, y)[0] ?? NaN)
      const mean = reds.reduce((sum, red) => sum + red, 0) / reds.length
      return Math.sqrt(reds.reduce((sum, red) => sum + (red - mean) ** 2, 0) / reds.length)
    }
    // The mean of five values has less than half the deviation of one.
    for (const x of [0, 50, 150, 199]) expect(spread(x)).toBeLessThan(0.6 * spread(68))
    for (const y of rows) {
      expect(isNear(at(67, y), at(68, y))).toBe(true)
      expect(Math.abs((at(67, y)[0] ?? NaN) - (at(68, y)[0] ?? NaN))).toBeLessThanOrEqual(2)
    }
  })

  test('is reproducible', async () => {
    const size = { width: 300, height: 200 }
    expect(await writePng(square, NATIVE, size)).toEqual(await writePng(square, NATIVE, size))
  })
})
