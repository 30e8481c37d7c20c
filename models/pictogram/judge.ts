/**
 * What is on a picture, as far as programs can tell. The thing: a small network, trained beside the painter on all
 * names, looks at the picture and points into the space of sentence embeddings; the nearest of some names is what it
 * sees. The colour: each pixel that is not background counts for the nearest of eleven colours.
 */
import { InferenceSession, Tensor } from 'onnxruntime-node'
import sharp from 'sharp'

const SIDE = 64
const ONNX_ERRORS_ONLY = 3
/** In any of red, green and blue, of 255: what differs less from the edge is background. */
const BACKGROUND_REACH = 40

/** As in `train/words.py`. */
const colours: Readonly<Record<string, readonly [number, number, number]>> = {
  red: [226, 40, 48],
  orange: [247, 138, 27],
  yellow: [252, 208, 40],
  green: [62, 168, 70],
  blue: [38, 102, 214],
  purple: [132, 72, 190],
  pink: [246, 130, 178],
  brown: [134, 86, 52],
  black: [34, 34, 38],
  gray: [142, 146, 152],
  white: [248, 248, 250],
}
/** Of each colour: in the shade, as it is, in the light. */
const shades = Object.entries(colours).flatMap(([name, rgb]) => [
  { name, rgb: rgb.map((value) => 0.65 * value) },
  { name, rgb: [...rgb] },
  { name, rgb: rgb.map((value) => value + 0.35 * (255 - value)) },
])

export type Part = 'whole' | 'left' | 'right'

export interface Judge {
  /** A direction among sentence embeddings. */
  see(png: Uint8Array, part?: Part): Promise<Float32Array>
}

export async function loadJudge(file: string): Promise<Judge> {
  const session = await InferenceSession.create(file, { intraOpNumThreads: 1, logSeverityLevel: ONNX_ERRORS_ONLY })
  return {
    see: async (png, part = 'whole') => {
      const pixels = await readPart(png, part)
      const planes = new Float32Array(pixels.length)
      const count = SIDE * SIDE
      for (let i = 0; i < count; i++) {
        for (let channel = 0; channel < 3; channel++) planes[channel * count + i] = (pixels[3 * i + channel] ?? 0) / 255
      }
      const outcome = await session.run({ picture: new Tensor('float32', planes, [1, 3, SIDE, SIDE]) })
      return outcome['label']?.data as Float32Array
    },
  }
}

/** Of a half, the square around its middle, where the scenes of the training have their things. */
async function readPart(png: Uint8Array, part: Part): Promise<Uint8Array> {
  const { width, height } = await sharp(png).metadata()
  const half = Math.floor(width / 2)
  const area = { left: part === 'right' ? half : 0, top: Math.floor((height - half) / 2), width: half, height: half }
  const chosen = part === 'whole' ? sharp(png) : sharp(png).extract(area)
  return chosen.resize(SIDE, SIDE, { kernel: 'lanczos3' }).removeAlpha().raw().toBuffer()
}

/** The names, the nearest first. */
export function rank(
  seen: Float32Array,
  labels: ReadonlyMap<string, Float32Array>,
  names: readonly string[],
): string[] {
  const nearness = new Map(names.map((name) => [name, dot(seen, labels.get(name) ?? new Float32Array(seen.length))]))
  return names.toSorted((a, b) => (nearness.get(b) ?? 0) - (nearness.get(a) ?? 0))
}

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0)
}

/** The colour of most of what is not background; undefined: there is nothing else. */
export async function mainColour(png: Uint8Array): Promise<string | undefined> {
  const pixels = await sharp(png).resize(SIDE, SIDE).removeAlpha().raw().toBuffer()
  const pixelAt = (i: number): number[] => [...pixels.subarray(3 * i, 3 * i + 3)]
  const edge = Array.from({ length: SIDE }, (_, i) => [
    pixelAt(i),
    pixelAt(SIDE * i),
    pixelAt(SIDE * (SIDE - 1) + i),
  ]).flat()
  const background = [0, 1, 2].map((channel) => median(edge.map((rgb) => rgb[channel] ?? 0)))
  const votes = new Map<string, number>()
  for (let i = 0; i < SIDE * SIDE; i++) {
    const rgb = pixelAt(i)
    if (rgb.every((value, channel) => Math.abs(value - (background[channel] ?? 0)) < BACKGROUND_REACH)) continue
    const name = nearestColour(rgb)
    votes.set(name, (votes.get(name) ?? 0) + 1)
  }
  return [...votes].toSorted(([, a], [, b]) => b - a)[0]?.[0]
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

function nearestColour(rgb: readonly number[]): string {
  const distance = (shade: readonly number[]) => shade.reduce((sum, value, i) => sum + (value - (rgb[i] ?? 0)) ** 2, 0)
  return shades.reduce((best, one) => (distance(one.rgb) < distance(best.rgb) ? one : best)).name
}
