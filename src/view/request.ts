/** Inference requests: outcome, kind, usage and duration. */
import type { Reply } from '../client/client.ts'
import type { RequestOperation } from '../contract/choices.ts'
import { count, number } from './number.ts'
import type { Tone } from './tone.ts'

type LoggedRequest = Reply<'listInferenceRequests'>['requests'][number]

export const outcomeLabels = {
  answered: ['Answered', 'good'],
  cut: ['Cancelled by the client', 'plain'],
  broken: ['Interrupted', 'bad'],
  failed: ['Failed', 'bad'],
} as const satisfies Record<LoggedRequest['outcome'], readonly [label: string, tone: Tone]>

export const operationLabels: Readonly<Record<RequestOperation, string>> = {
  chat: 'Chat',
  responses: 'Responses',
  messages: 'Messages',
  completion: 'Completions',
  embedding: 'Embeddings',
  rerank: 'Reranking',
  transcription: 'Transcription',
  speech: 'Speech',
  image: 'Images',
}

/** `Messages, batch` */
export function protocolOf({ operation, batchId }: Pick<LoggedRequest, 'operation' | 'batchId'>): string {
  const label = (operationLabels as Readonly<Record<string, string>>)[operation] ?? operation
  return batchId === null ? label : `${label}, batch`
}

/** `1,200 (800 cached) in, 300 out`, or the units of the operation. */
export function requestUsage(request: LoggedRequest): string {
  const { operation, inputUnits, cachedUnits, outputUnits } = request
  if (operation === 'speech') return count(inputUnits, 'character')
  if (operation === 'transcription') return `${number(inputUnits / 1_000)} s of sound`
  if (operation === 'image') return count(outputUnits, 'pixel step')
  const cached = cachedUnits === 0 ? '' : ` (${number(cachedUnits)} cached)`
  return `${number(inputUnits)}${cached} in, ${number(outputUnits)} out`
}

/** `340 ms`, `2.5 s` */
export function duration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}
