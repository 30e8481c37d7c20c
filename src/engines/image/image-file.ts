/**
 * Writes an image as PNG. The model generates squares. Other formats contain the whole square, as large as it fits, and
 * continue its edges at the two remaining sides. A plain background continues without a seam. Slight unevenness, which is
 * invisible in the background itself, would become stripes, so it fades out.
 */
import sharp from 'sharp'

export interface ImageSize {
  readonly width: number
  readonly height: number
}

const COMPRESSION_LEVEL = 6
const CHANNELS = 3
/** Share of the side. The decoder has no data beyond the edge, so the outermost pixels are uneven. */
const TRIMMED = 1 / 128
/** Shares of the side: the radius of the smoothing along the edge, and the distance at which it is complete. */
const EVENED_ALONG = 1 / 32
const EVENED_OUT = 1 / 16
/** Per channel, of 255. A larger difference is an object, not unevenness, and stays sharp. */
const UNEVENNESS = 24

// The same pixels are never processed twice, so libvips' cache would only use memory.
sharp.cache(false)

/** `pixels`: RGB, row by row. */
export async function writePng(pixels: Uint8Array, native: number, size: ImageSize): Promise<Uint8Array> {
  const { width, height } = size
  const side = Math.min(width, height)
  const leftEdge = Math.floor((width - side) / 2)
  const top = Math.floor((height - side) / 2)
  const right = width - side - leftEdge
  const bottom = height - side - top
  const trim = Math.floor(native * TRIMMED)
  const croppedSide = native - 2 * trim
  const fitted = await sharp(pixels, { raw: { width: native, height: native, channels: CHANNELS } })
    .extract({ left: trim, top: trim, width: croppedSide, height: croppedSide })
    .resize(side, side, { fit: 'fill', kernel: 'lanczos3' })
    .extend({ left: leftEdge, top, right, bottom })
    .raw()
    .toBuffer()
  continueEdge(fitted, { start: leftEdge, along: width, outwards: -1, length: side, depth: leftEdge })
  continueEdge(fitted, { start: leftEdge + side - 1, along: width, outwards: 1, length: side, depth: right })
  continueEdge(fitted, { start: top * width, along: 1, outwards: -width, length: side, depth: top })
  continueEdge(fitted, { start: (top + side - 1) * width, along: 1, outwards: width, length: side, depth: bottom })
  return sharp(fitted, { raw: { width, height, channels: CHANNELS } })
    .png({ compressionLevel: COMPRESSION_LEVEL })
    .toBuffer()
}

/** An edge of the square. Positions are in pixels. */
interface Edge {
  readonly start: number
  /** Offset to the next pixel of the edge. */
  readonly along: number
  /** Offset to the next pixel away from the square. */
  readonly outwards: number
  readonly length: number
  /** The number of lines beyond it. */
  readonly depth: number
}

/** Fades from the edge to the smoothed edge, line by line. */
function continueEdge(pixels: Uint8Array, { start, along, outwards, length, depth }: Edge): void {
  if (depth === 0) return
  const placeOf = (line: number, i: number): number => CHANNELS * (start + line * outwards + i * along)
  const edge = Array.from({ length }, (_, i) => pixels.slice(placeOf(0, i), placeOf(0, i) + CHANNELS))
  const evened = evenOut(edge, Math.ceil(length * EVENED_ALONG))
  for (let line = 1; line <= depth; line++) {
    const share = Math.min(1, line / (length * EVENED_OUT))
    for (let i = 0; i < length; i++) {
      for (let channel = 0; channel < CHANNELS; channel++) {
        const edgeValue = edge[i]?.[channel] ?? 0
        const even = evened[CHANNELS * i + channel] ?? 0
        pixels[placeOf(line, i) + channel] = Math.round(edgeValue + share * (even - edgeValue))
      }
    }
  }
}

/** Each pixel becomes the mean of similar neighbors, as many on either side, so that gradients are preserved. */
function evenOut(edge: readonly Uint8Array[], most: number): Float32Array {
  const evened = new Float32Array(CHANNELS * edge.length)
  for (const [i, edgePixel] of edge.entries()) {
    const radius = Math.min(most, i, edge.length - 1 - i)
    const like = edge
      .slice(i - radius, i + radius + 1)
      .filter((other) => other.every((value, channel) => Math.abs(value - (edgePixel[channel] ?? 0)) <= UNEVENNESS))
    for (let channel = 0; channel < CHANNELS; channel++) {
      const sum = like.reduce((total, other) => total + (other[channel] ?? 0), 0)
      evened[CHANNELS * i + channel] = sum / like.length
    }
  }
  return evened
}
