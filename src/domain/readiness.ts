/**
 * The smallest real job of each kind of model. A replica is ready when it has done one: health endpoints of engines
 * answer while weights load or kernels compile, so they prove nothing.
 */
import type { ReplicaProtocol, ServedModel } from './recipe-engine-type.ts'

export interface ReadinessJob {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  /** Whether the fields are sent as a form, with a second of silence as the file. Absent: as JSON. */
  readonly isRecording?: true
  readonly proof: 'token' | 'vector' | 'score' | 'image' | 'audio' | 'text'
  /** The time limit of one attempt. */
  readonly timeoutSeconds: number
}

const TEXT = 'Hi'
const SIDE = 128

export function readinessOf(protocol: ReplicaProtocol, { name: model, kind }: ServedModel): ReadinessJob {
  switch (kind) {
    case 'chat':
      return {
        path: '/v1/chat/completions',
        body: { model, messages: [{ role: 'user', content: TEXT }], max_tokens: 1 },
        proof: 'token',
        timeoutSeconds: 120,
      }
    case 'embedding':
      return { path: '/v1/embeddings', body: { model, input: TEXT }, proof: 'vector', timeoutSeconds: 60 }
    case 'rerank':
      return {
        ...(protocol === 'tei'
          ? { path: '/rerank', body: { query: TEXT, texts: [TEXT] } }
          : { path: '/v1/rerank', body: { model, query: TEXT, documents: [TEXT] } }),
        proof: 'score',
        timeoutSeconds: 60,
      }
    case 'image':
      return { ...imageJob(protocol, model), proof: 'image', timeoutSeconds: 300 }
    case 'speech':
      return {
        ...(protocol === 'embedded'
          ? { path: '/v1/audio/generation', body: { model, text: TEXT, speed: 1 } }
          : { path: '/v1/audio/speech', body: { model, input: TEXT, voice: 'alloy' } }),
        proof: 'audio',
        timeoutSeconds: 120,
      }
    case 'transcription':
      return {
        path: '/v1/audio/transcriptions',
        body: { model, response_format: 'json' },
        isRecording: true,
        proof: 'text',
        timeoutSeconds: 120,
      }
  }
}

function imageJob(protocol: ReplicaProtocol, model: string): Pick<ReadinessJob, 'path' | 'body'> {
  const size = { width: SIDE, height: SIDE, steps: 1, cfg_scale: 1 }
  if (protocol === 'embedded')
    return { path: '/v1/image/generation', body: { model_name: model, prompt: TEXT, ...size } }
  if (protocol === 'txt2img') return { path: '/sdapi/v1/txt2img', body: { prompt: TEXT, ...size } }
  return {
    path: '/v1/images/generations',
    body: { model, prompt: TEXT, size: `${SIDE}x${SIDE}`, n: 1, response_format: 'b64_json' },
  }
}

/** Whether an answer contains what the job asked for. */
export function isProven(job: ReadinessJob, status: number, body: Uint8Array): boolean {
  if (status !== 200) return false
  if (job.proof === 'audio') return isAudio(body)
  const answer = parseObject(body)
  switch (job.proof) {
    case 'token':
      return hasToken(answer)
    case 'text':
      return typeof answer['text'] === 'string'
    case 'vector': {
      const [first] = listOf(answer['data'])
      return listOf(first?.['embedding']).length > 0 || isText(first?.['embedding'])
    }
    case 'score': {
      const [first] = listOf(parseJson(body)).concat(listOf(answer['results']))
      return typeof (first?.['relevance_score'] ?? first?.['score']) === 'number'
    }
    case 'image': {
      const [image] = Array.isArray(answer['images']) ? (answer['images'] as unknown[]) : []
      const [data] = listOf(answer['data'])
      return isText(image) || isText((image as { image?: unknown } | undefined)?.image) || isText(data?.['b64_json'])
    }
  }
}

/** An empty message is enough: the first token may be a special one that is not shown. */
function hasToken(answer: Record<string, unknown>): boolean {
  const [choice] = listOf(answer['choices'])
  const usage = answer['usage'] as { completion_tokens?: unknown } | undefined
  const tokens = usage?.completion_tokens
  return choice?.['message'] !== undefined && (tokens === undefined || (typeof tokens === 'number' && tokens > 0))
}

/** Engines answer with WAV, MP3 or Ogg, or with JSON that has the audio as text. */
function isAudio(body: Uint8Array): boolean {
  if (body[0] === 0x7b) return isText(parseObject(body)['audio'])
  return body.length > 0
}

function parseObject(body: Uint8Array): Record<string, unknown> {
  const value = parseJson(body)
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return undefined
  }
}

function listOf(value: unknown): Array<Record<string, unknown>> {
  return Array.isArray(value) ? (value as Array<Record<string, unknown>>) : []
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}
