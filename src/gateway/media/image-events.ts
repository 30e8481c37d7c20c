/**
 * The events of a streamed image in OpenAI's format. How many unfinished images it contains is up to the engine and to
 * the client: one that reads slowly gets only the latest. Comments keep the connection open meanwhile.
 */
import type { Clock } from '../../base/instant.ts'
import { formatSse } from '../../base/net/sse.ts'
import { asLatin1 } from '../dialect/chat-stream.ts'
import type { MediaEvents } from './media-stream.ts'

export interface PaintedImages {
  readonly images: ReadonlyArray<{ readonly image: string; readonly random_seed: number }>
  readonly notes?: readonly string[]
  readonly created: number
}

/** Images are not billed in tokens. */
const noTokens = {
  input_tokens: 0,
  output_tokens: 0,
  total_tokens: 0,
  input_tokens_details: { image_tokens: 0, text_tokens: 0 },
}

export function openaiImageEvents(sides: { width: number; height: number }, clock: Clock): MediaEvents {
  let unsent: string | undefined
  let sentPartials = 0
  const eventOf = (type: string, image: string, createdAt: number, members: object): string => {
    const event = {
      type,
      b64_json: image,
      created_at: createdAt,
      size: `${sides.width}x${sides.height}`,
      quality: 'auto',
      background: 'auto',
      output_format: 'png',
      ...members,
    }
    return asLatin1(formatSse({ event: type, data: JSON.stringify(event) }))
  }
  return {
    note: (progress) => {
      if (progress.type === 'partial') unsent = progress.image
    },
    progress: () => {
      if (unsent === undefined) return ''
      const image = unsent
      unsent = undefined
      return eventOf('image_generation.partial_image', image, Math.floor(clock.now() / 1_000), {
        partial_image_index: sentPartials++,
      })
    },
    result: (value) => {
      const { images, notes, created } = value as PaintedImages
      const events = images.map(({ image, random_seed }) =>
        eventOf('image_generation.completed', image, created, { usage: noTokens, random_seed, notes }),
      )
      return events.join('')
    },
  }
}
