/**
 * The PNG of an image. The model paints squares; another shape holds the whole square, as large as it fits, and what
 * is left at two sides goes on as the image's own edge does. A plain background is continued without a seam. Small
 * unevenness, which nobody sees in a painted background, would become stripes: it fades out on the way.
 */
import sharp from 'sharp'

export interface ImageSize {
  readonly width: number
  readonly height: number
}

const COMPRESSION_LEVEL = 6
const CHANNELS = 3
/** Of the square's side: the decoder sees nothing beyond its edge, so the outermost pixels come out uneven. */
const TRIMMED = 1 / 128
/** Of the square's side: how far along the edge it is evened out, and how far out that is complete. */
const EVENED_ALONG = 1 / 32
const EVENED_OUT = 1 / 16
/** In each colour, of 255. What differs by more is a thing and not unevenness, and stays as sharp as it is. */
const UNEVENNESS = 24

// No image is made twice from the same pixels, so libvips would keep them for nothing.
sharp.cache(false)

/** `pixels`: red, green and blue of each, row by row. */
export async function writePng(pixels: Uint8Array, native: number, size: ImageSize): Promise<Uint8Array> {
  const { width, height } = size
  const side = Math.min(width, height)
  const left = Math.floor((width - side) / 2)
  const top = Math.floor((height - side) / 2)
  const right = width - side - left
  const bottom = height - side - top
  const trim = Math.floor(native * TRIMMED)
  const kept = native - 2 * trim
  const fitted = await sharp(pixels, { raw: { width: native, height: native, channels: CHANNELS } })
    .extract({ left: trim, top: trim, width: kept, height: kept })
    .resize(side, side, { fit: 'fill', kernel: 'lanczos3' })
    .extend({ left, top, right, bottom })
    .raw()
    .toBuffer()
  continueEdge(fitted, { start: left, along: width, outwards: -1, length: side, depth: left })
  continueEdge(fitted, { start: left + side - 1, along: width, outwards: 1, length: side, depth: right })
  continueEdge(fitted, { start: top * width, along: 1, outwards: -width, length: side, depth: top })
  continueEdge(fitted, { start: (top + side - 1) * width, along: 1, outwards: width, length: side, depth: bottom })
  return sharp(fitted, { raw: { width, height, channels: CHANNELS } })
    .png({ compressionLevel: COMPRESSION_LEVEL })
    .toBuffer()
}

/** An edge of the square. Places are counted in pixels. */
interface Edge {
  readonly start: number
  /** To the next pixel of the edge. */
  readonly along: number
  /** To the next pixel away from the square. */
  readonly outwards: number
  readonly length: number
  /** How many lines lie beyond it. */
  readonly depth: number
}

/** From line to line less like the edge as it is, and more like the edge evened out. */
function continueEdge(pixels: Uint8Array, { start, along, outwards, length, depth }: Edge): void {
  if (depth === 0) return
  const placeOf = (line: number, i: number): number => CHANNELS * (start + line * outwards + i * along)
  const edge = Array.from({ length }, (_, i) => pixels.slice(placeOf(0, i), placeOf(0, i) + CHANNELS))
  const evened = evenOut(edge, Math.ceil(length * EVENED_ALONG))
  for (let line = 1; line <= depth; line++) {
    const share = Math.min(1, line / (length * EVENED_OUT))
    for (let i = 0; i < length; i++) {
      for (let channel = 0; channel < CHANNELS; channel++) {
        const own = edge[i]?.[channel] ?? 0
        const even = evened[CHANNELS * i + channel] ?? 0
        pixels[placeOf(line, i) + channel] = Math.round(own + share * (even - own))
      }
    }
  }
}

/** Each pixel is the mean of those near it that are like it. As many are looked at on either side, so slopes stay. */
function evenOut(edge: readonly Uint8Array[], most: number): Float32Array {
  const evened = new Float32Array(CHANNELS * edge.length)
  for (const [i, own] of edge.entries()) {
    const radius = Math.min(most, i, edge.length - 1 - i)
    const like = edge
      .slice(i - radius, i + radius + 1)
      .filter((other) => other.every((value, channel) => Math.abs(value - (own[channel] ?? 0)) <= UNEVENNESS))
    for (let channel = 0; channel < CHANNELS; channel++) {
      const sum = like.reduce((total, other) => total + (other[channel] ?? 0), 0)
      evened[CHANNELS * i + channel] = sum / like.length
    }
  }
  return evened
}
