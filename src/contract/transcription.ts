/** Transcription (v1) of recordings. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { modelName, openaiInference } from './inference.ts'

const MAX_PROMPT_CHARS = 10_000

const transcriptFormat = z.enum(['json', 'text', 'srt', 'vtt', 'verbose_json'])
export type TranscriptFormat = z.infer<typeof transcriptFormat>

const granularity = z.enum(['segment', 'word'])

/** The values of a form are texts. */
const transcriptionBody = z
  .looseObject({
    file: z
      .string()
      .max(limits.nameChars)
      .meta({ format: 'binary' })
      .describe('The recording: WAV, MP3, FLAC or Ogg Opus, recognized by its content'),
    model: modelName.optional().describe('Default: the first transcription model'),
    language: z.string().max(20).optional().describe('Language of the recording, such as `en`'),
    prompt: z.string().max(MAX_PROMPT_CHARS).optional().describe('Text that helps with names and style'),
    response_format: transcriptFormat.default('json'),
    temperature: z.coerce.number().min(0).max(1).optional(),
    timestamp_granularities: z.union([granularity, z.array(granularity).max(2)]).optional(),
    stream: z.enum(['true', 'false']).optional().describe('Whether the words are sent as they are recognized'),
  })
  .meta({ id: 'TranscriptionRequest' })

const usage = z.object({
  type: z.literal('duration'),
  seconds: z.number().describe('Length of the recording, which is what is billed'),
})

const transcript = z
  .object({
    text: z.string(),
    usage,
    task: z.literal('transcribe').optional(),
    language: z.string().optional(),
    duration: z.number().optional().describe('Seconds'),
    segments: z
      .array(z.object({ id: z.int(), start: z.number(), end: z.number(), text: z.string() }))
      .optional()
      .describe('With `response_format: verbose_json`: the parts between pauses; times in seconds'),
  })
  .meta({ id: 'Transcription' })

const transcriptEvent = z
  .union([
    z.object({ type: z.literal('transcript.text.delta'), delta: z.string() }),
    z.object({ type: z.literal('transcript.text.done'), text: z.string(), usage }),
    z.object({ type: z.literal('error'), error: z.looseObject({ message: z.string() }) }),
  ])
  .meta({ id: 'TranscriptionEvent' })

export const transcriptionEndpoints = {
  createTranscription: endpoint({
    ...openaiInference,
    method: 'POST',
    path: '/v1/audio/transcriptions',
    summary: 'Transcribe a recording',
    description: `At most ${limits.soundBytes / 1_000_000} MB and ${limits.soundMs / 3_600_000} hours. \`text\`, \`srt\` and \`vtt\` are answered as text. With \`stream: true\`, the response is a stream of server-sent events that ends with \`data: [DONE]\`.`,
    errors: [400, 401, 402, 403, 422, 500],
    takes: 'multipart',
    maxBytes: limits.soundFormBytes,
    body: transcriptionBody,
    example: { file: 'recording.wav', model: 'moonshine-base-en', response_format: 'json' },
    response: transcript,
    chunk: transcriptEvent,
  }),
}
