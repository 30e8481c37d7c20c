/** Speech: JSON with an MP3, or the file itself in the format that the client requests. */
import { ownAudioFormats, type AudioFormat } from '../../contract/audio-format.ts'
import { failField, type Failure } from '../../contract/result.ts'
import { noUnits } from '../../domain/inference.ts'
import type { Deployment } from '../catalog.ts'
import { parseObject } from '../dialect/usage.ts'
import type { Collected } from '../upstream/collect.ts'
import { json, protocolFault } from './media-work.ts'
import type { MediaAnswer, MediaWork } from './media.ts'
import { readMp3 } from '../../base/sound/mp3.ts'

export interface SpeechBody {
  readonly text: string
  readonly language?: string | undefined
  readonly speaker?: string | undefined
  readonly speed: number
  readonly model?: string | undefined
}

export function speechWork(body: SpeechBody): MediaWork {
  return {
    ...workOf(body, { format: 'mp3', stream: false }),
    read: (collected, { seconds }) => readSpeech(collected, seconds, countCharacters(body.text)),
  }
}

/**
 * Returns the file. Our own engine sends it in parts, as progress, and its answer is then empty; another server's
 * answer is the whole file.
 */
export function speechFileWork(body: SpeechBody, format: AudioFormat): MediaWork {
  const work = workOf(body, { format, stream: true })
  const characters = countCharacters(body.text)
  return {
    ...work,
    unitsOf: (spoken) => ({ ...noUnits, characters: Math.min(spoken, characters) }),
    refusal: (deployment) => work.refusal(deployment) ?? formatFault(deployment, format),
    read: (collected, { seconds }) => {
      if (collected.head.deployment.protocol === 'embedded') return { body: Buffer.alloc(0), units: work.maxUnits }
      const { body: file } = collected
      // Other formats than MP3 are not checked.
      const isFile = format === 'mp3' ? readSpeech(collected, seconds, characters) !== undefined : file.length > 0
      return isFile ? { body: file, units: work.maxUnits } : undefined
    },
  }
}

interface EngineForm {
  readonly format: AudioFormat
  /** Whether our own engine sends the file in parts, as events. */
  readonly stream: boolean
}

function workOf(body: SpeechBody, form: EngineForm): Omit<MediaWork, 'read'> {
  return {
    operation: 'speech',
    kind: 'speech',
    modelName: body.model,
    modelField: 'model',
    maxUnits: { ...noUnits, characters: countCharacters(body.text) },
    refusal: (deployment) => {
      const fault = protocolFault(deployment, ['speech', 'embedded'], 'model')
      if (fault !== undefined || deployment.protocol === 'embedded' || body.language === undefined) return fault
      return failField(['language'], 'not_supported', { feature: 'language' })
    },
    request: (deployment) =>
      deployment.protocol === 'embedded'
        ? json('/v1/audio/generation', { ...body, ...form, model: deployment.upstreamModel })
        : json('/v1/audio/speech', {
            model: deployment.upstreamModel,
            input: body.text,
            voice: body.speaker ?? 'alloy',
            speed: body.speed,
            response_format: form.format,
          }),
    body: { ...body },
  }
}

function formatFault({ protocol }: Deployment, format: AudioFormat): Failure | undefined {
  if (protocol !== 'embedded' || ownAudioFormats.some((ownFormat) => ownFormat === format)) return undefined
  return failField(['response_format'], 'audio_format', { format, available: ownAudioFormats })
}

function countCharacters(text: string): number {
  return Array.from(text).length
}

function readSpeech({ head, body }: Collected, seconds: number, characters: number): MediaAnswer | undefined {
  const units = { ...noUnits, characters }
  if (head.deployment.protocol === 'embedded') {
    const answer = parseObject(body.toString('latin1'))
    if (typeof answer?.['audio'] !== 'string') return undefined
    return { body: { ...answer, usage: characters }, units }
  }
  const facts = readMp3(body)
  if (facts === undefined) return undefined
  return {
    body: {
      audio: body.toString('base64'),
      inference_time: seconds,
      sample_rate: facts.sampleRate,
      usage: characters,
      duration: facts.seconds,
    },
    units,
  }
}
