/**
 * Sends speech, as the file itself or as events with its parts. Nothing is sent before the first part, so that a
 * refusal is a normal error; the end is sent once the request is recorded. A client that reads slowly slows the engine
 * down.
 */
import { audioTypes, type AudioFormat } from '../../contract/audio-format.ts'
import { formatSse } from '../../base/net/sse.ts'
import type { Failure, Result } from '../../contract/result.ts'
import type { Reply } from '../call.ts'
import { asLatin1 } from '../dialect/chat-stream.ts'
import type { MediaClient } from './media.ts'

export interface SpeechStreamOptions {
  readonly format: AudioFormat
  readonly asEvents: boolean
  /** The number of billed characters. */
  readonly characters: number
  /** Runs the request. Its result contains the part of the file that was not reported as progress. */
  readonly run: (client: MediaClient) => Promise<Result<unknown>>
  /** A failure in the form that clients read. */
  readonly errorOf: (failure: Failure) => unknown
}

export async function streamSpeech(reply: Reply, options: SpeechStreamOptions): Promise<void> {
  const { format, asEvents, characters } = options
  const type = asEvents ? undefined : audioTypes[format]
  const gone = new AbortController()
  let begun = false
  reply.onGone(() => gone.abort())
  const textOf = (audio: Buffer): string => {
    if (!asEvents) return audio.toString('latin1')
    return audio.length === 0 ? '' : eventOf({ type: 'speech.audio.delta', audio: audio.toString('base64') })
  }
  const write = (audio: Buffer): boolean => {
    if (gone.signal.aborted) return true
    const text = textOf(audio)
    const isBegun = begun
    begun = true
    return isBegun ? reply.write(text) : reply.startStream(text, type)
  }
  const result = await options.run({
    signal: gone.signal,
    onProgress: (progress) => (progress.type === 'audio' ? write(Buffer.from(progress.audio, 'base64')) : true),
    onDrain: (resume) => reply.onDrain(resume),
  })
  if (gone.signal.aborted) return
  if (!result.ok) {
    if (!begun) return reply.refuse(result)
    // A broken file cannot be marked as such; only the connection can show it.
    if (!asEvents) return reply.abort()
    return reply.endStream(eventOf({ type: 'error', error: options.errorOf(result) }))
  }
  const remainder = textOf(result.value as Buffer)
  if (!begun && type !== undefined) return reply.send(200, type, remainder)
  if (!begun) reply.startStream('')
  const usage = { input_tokens: characters, output_tokens: 0, total_tokens: characters }
  reply.endStream(asEvents ? remainder + eventOf({ type: 'speech.audio.done', usage }) : remainder)
}

function eventOf(value: { readonly type: string; readonly [field: string]: unknown }): string {
  return asLatin1(formatSse({ event: value.type, data: JSON.stringify(value) }))
}
