/** Writes a transcript in the formats that clients request. */
import { assertNever } from '../../base/assert-never.ts'
import type { TranscriptFormat } from '../../contract/transcription.ts'
import { writeSrt, writeVtt, type Segment } from '../../domain/subtitle.ts'

export interface Transcript {
  readonly text: string
  readonly language: string
  readonly seconds: number
  readonly segments: readonly Segment[]
}

/** An answer that is plain text and not JSON. */
export class PlainText {
  readonly type: string
  readonly text: string

  constructor(type: string, text: string) {
    this.type = type
    this.text = text
  }
}

export function writeTranscript(transcript: Transcript, format: TranscriptFormat): unknown {
  const { text, language, seconds, segments } = transcript
  const usage = { type: 'duration' as const, seconds }
  switch (format) {
    case 'json':
      return { text, usage }
    case 'verbose_json': {
      const numbered = segments.map((segment, id) => ({ id, ...segment }))
      return { task: 'transcribe', language, duration: seconds, text, segments: numbered, usage }
    }
    case 'text':
      return new PlainText('text/plain; charset=utf-8', `${text}\n`)
    case 'srt':
      return new PlainText('text/plain; charset=utf-8', writeSrt(segments))
    case 'vtt':
      return new PlainText('text/vtt; charset=utf-8', writeVtt(segments))
    default:
      return assertNever(format)
  }
}
