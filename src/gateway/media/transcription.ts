/**
 * Transcription. The price depends on the length of the recording, which is counted before an engine starts. Our own
 * engine gets the file unchanged and reports each piece of text. Other servers get the form of OpenAI's API, and their
 * answer is converted to the format that the client requests, since few of them support all formats.
 */
import { randomUUID } from 'node:crypto'
import { limits } from '../../base/limits.ts'
import { formBody } from '../../base/net/form-body.ts'
import { measureSound, millisecondsOf, type Sound, type SoundFormat } from '../../base/sound/sound.ts'
import { failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { TranscriptFormat } from '../../contract/transcription.ts'
import { noUnits, type InferenceUnits } from '../../domain/inference.ts'
import type { Segment } from '../../domain/subtitle.ts'
import type { Deployment } from '../catalog.ts'
import { parseObject } from '../dialect/usage.ts'
import type { Collected } from '../upstream/collect.ts'
import { protocolFault } from './media-work.ts'
import { DONE, eventOf, type MediaEvents } from './media-stream.ts'
import type { MediaWork } from './media.ts'
import { writeTranscript, type Transcript } from './transcript.ts'

export interface TranscriptionBody {
  readonly model?: string | undefined
  readonly language?: string | undefined
  readonly prompt?: string | undefined
  readonly response_format: TranscriptFormat
  readonly temperature?: number | undefined
  readonly timestamp_granularities?: string | readonly string[] | undefined
  readonly stream?: 'true' | 'false' | undefined
}

const timedFormats: ReadonlySet<TranscriptFormat> = new Set(['srt', 'vtt', 'verbose_json'])
/** Language tags of English. */
const english = /^en([-_]|$)|^english$/i
const DEFAULT_LANGUAGE = 'english'

export function transcriptionWork(body: TranscriptionBody, bytes: Buffer): Result<MediaWork> {
  const fault = parameterFault(body)
  if (fault !== undefined) return fault
  const sound = measureSound(bytes)
  if ('fault' in sound) {
    if (sound.fault === 'damaged') return failField(['file'], 'sound_damaged')
    return failField(['file'], 'sound_format', { format: sound.name })
  }
  const length = millisecondsOf(sound)
  if (length > limits.soundMs) return failField(['file'], 'sound_too_long', { hours: limits.soundMs / 3_600_000 })
  const unitsOf = (ms: number): InferenceUnits => ({ ...noUnits, soundMs: Math.min(ms, length) })
  return ok({
    operation: 'transcription',
    kind: 'transcription',
    modelName: body.model,
    modelField: 'model',
    maxUnits: unitsOf(length),
    unitsOf,
    refusal: (deployment) => refusal(deployment, body),
    request: (deployment) => requestOf(deployment, body, { bytes, sound }),
    read: (collected) => {
      const transcript = readTranscript(collected, body, length)
      if (transcript === undefined) return undefined
      return { body: writeTranscript(transcript, body.response_format), units: unitsOf(transcript.seconds * 1_000) }
    },
    body: { ...body, file: { format: sound.format, bytes: bytes.length, milliseconds: length } },
  })
}

/** Sends words as they are recognized. If an engine reports no pieces, all words are sent at the end. */
export function transcriptEvents(): MediaEvents {
  const texts: string[] = []
  let sent = ''
  const deltaTo = (text: string): string => {
    const delta = text.slice(sent.length)
    sent = text
    return delta === '' ? '' : eventOf({ type: 'transcript.text.delta', delta })
  }
  return {
    note: (progress) => {
      if (progress.type === 'progress' && progress.segment?.text) texts.push(progress.segment.text)
    },
    progress: () => deltaTo(texts.join(' ')),
    result: (value) => {
      const { text, usage } = value as { text: string; usage: object }
      // If the answer differs from its pieces, which is the engine's fault, only the last event has the correct text.
      const missing = text.startsWith(sent) ? deltaTo(text) : ''
      return missing + eventOf({ type: 'transcript.text.done', text, usage }) + DONE
    },
  }
}

function parameterFault(body: TranscriptionBody): Failure | undefined {
  if ([body.timestamp_granularities].flat().includes('word')) {
    return failField(['timestamp_granularities'], 'not_supported', { feature: 'word timestamps' })
  }
  if (body.stream === 'true' && !['json', 'text'].includes(body.response_format)) {
    return failField(['response_format'], 'not_supported', { feature: `streaming as ${body.response_format}` })
  }
  return undefined
}

/** Our own model understands English only and takes no hints. */
function refusal(deployment: Deployment, { language, prompt, temperature }: TranscriptionBody): Failure | undefined {
  const fault = protocolFault(deployment, ['chat', 'embedded'], 'model')
  if (fault !== undefined || deployment.protocol !== 'embedded') return fault
  if (language !== undefined && language !== '' && !english.test(language)) {
    return failField(['language'], 'not_available', { name: 'language', available: ['en'] })
  }
  if (prompt !== undefined && prompt !== '') return failField(['prompt'], 'not_supported', { feature: 'prompt' })
  if (temperature === undefined || temperature === 0) return undefined
  return failField(['temperature'], 'not_supported', { feature: 'temperature' })
}

const PATH = '/v1/audio/transcriptions'

const mediaTypes: Readonly<Record<SoundFormat, string>> = {
  wav: 'audio/wav',
  mp3: 'audio/mpeg',
  flac: 'audio/flac',
  opus: 'audio/ogg',
}

interface File {
  readonly bytes: Buffer
  readonly sound: Sound
}

function requestOf({ protocol, upstreamModel, members }: Deployment, body: TranscriptionBody, file: File) {
  if (protocol === 'embedded') return { path: PATH, contentType: 'application/octet-stream', body: [file.bytes] }
  const { format } = file.sound
  const { language, prompt, temperature } = body
  const fields = {
    model: upstreamModel,
    // Many models cannot tell times, so times are requested only if needed.
    response_format: timedFormats.has(body.response_format) ? 'verbose_json' : 'json',
    ...(language === undefined || language === '' ? {} : { language }),
    ...(prompt === undefined || prompt === '' ? {} : { prompt }),
    ...(temperature === undefined ? {} : { temperature }),
    ...members,
  }
  const texts = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value)]))
  const extension = format === 'opus' ? 'ogg' : format
  const part = { field: 'file', name: `recording.${extension}`, type: mediaTypes[format], bytes: file.bytes }
  const form = formBody(texts, part, `berth-${randomUUID()}`)
  return { path: PATH, contentType: form.contentType, body: form.parts }
}

/** undefined: not a transcript, or without the times that are needed. */
function readTranscript({ head, body }: Collected, request: TranscriptionBody, length: number): Transcript | undefined {
  const answer = parseObject(body.toString('utf8'))
  if (answer === undefined) return undefined
  const isOwn = head.deployment.protocol === 'embedded'
  const isTimed = isOwn || timedFormats.has(request.response_format)
  const segments = isTimed ? readSegments(answer['segments']) : []
  if (segments === undefined) return undefined
  const text = isOwn ? segments.map((one) => one.text).join(' ') : answer['text']
  if (typeof text !== 'string') return undefined
  const language = isOwn ? DEFAULT_LANGUAGE : (textOf(answer['language']) ?? request.language ?? DEFAULT_LANGUAGE)
  const milliseconds = isOwn && Number.isSafeInteger(answer['ms']) ? Number(answer['ms']) : length
  return { text: text.trim(), language, seconds: Math.min(milliseconds, length) / 1_000, segments }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Sorts the segments, and moves ends that lie before their beginnings. undefined: not a list of segments. */
function readSegments(list: unknown): Segment[] | undefined {
  if (!Array.isArray(list)) return undefined
  const segments: Segment[] = []
  for (const one of list as Array<Partial<Segment> | null>) {
    const { start, end, text } = one ?? {}
    if (typeof start !== 'number' || typeof end !== 'number' || typeof text !== 'string') return undefined
    if (!Number.isFinite(start) || !Number.isFinite(end)) return undefined
    segments.push({ start: Math.max(0, start), end: Math.max(start, end, 0), text: text.trim() })
  }
  return segments.toSorted((one, other) => one.start - other.start)
}
