/**
 * The events of a streamed image in OpenAI's format. Engines draw no partial images, so only the final image is sent,
 * which clients must expect anyway. Comments keep the connection open meanwhile.
 */
import { formatSse } from '../../base/net/sse.ts'
import type { MediaEvents } from './media-stream.ts'

export interface PaintedImages {
  readonly images: ReadonlyArray<{ readonly image: string }>
  readonly created: number
}

/** Images are not billed in tokens. */
const noTokens = {
  input_tokens: 0,
  output_tokens: 0,
  total_tokens: 0,
  input_tokens_details: { image_tokens: 0, text_tokens: 0 },
}

export function openaiImageEvents({ width, height }: { width: number; height: number }): MediaEvents {
  return {
    note: () => {},
    progress: () => '',
    result: (value) => {
      const { images, created } = value as PaintedImages
      const events = images.map(({ image }) => {
        const event = {
          type: 'image_generation.completed',
          b64_json: image,
          created_at: created,
          size: `${width}x${height}`,
          quality: 'auto',
          background: 'auto',
          output_format: 'png',
          usage: noTokens,
        }
        return formatSse({ event: event.type, data: JSON.stringify(event) })
      })
      return events.join('')
    },
  }
}
