/**
 * Inference metrics by model and deployment. The series of a pair are created once: this runs for every request. Replicas
 * come and go, so those of a model are one deployment, and the number of pairs is limited.
 */
import type { Metrics } from '../base/metrics.ts'
import type { EndedCall } from './money/meter.ts'

interface Series {
  readonly outcome: Readonly<Record<EndedCall['outcome'], (amount?: number) => void>>
  readonly inputTokens: (amount?: number) => void
  readonly cachedTokens: (amount?: number) => void
  readonly outputTokens: (amount?: number) => void
  readonly firstByte: (seconds: number) => void
  readonly total: (seconds: number) => void
  readonly rate: (tokensPerSecond: number) => void
}

/** The rest is counted as one. */
const MAX_SERIES = 2_000
const OTHERS = 'others\nothers'
const REPLICA_ID = /^rep_[0-9A-Za-z]+$/

export function watchRequests(metrics: Metrics): (ended: EndedCall) => void {
  const requests = metrics.counter('berth_inference_requests_total', 'Inference requests by outcome')
  const tokens = metrics.counter('berth_inference_tokens_total', 'Tokens by kind; cached tokens are part of the input')
  const firstByte = metrics.histogram(
    'berth_inference_first_byte_seconds',
    'Time to the first byte from the engine (the first token of a stream)',
    [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60],
  )
  const total = metrics.histogram(
    'berth_inference_request_seconds',
    'Time to the end of the answer',
    [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 15, 60, 300],
  )
  const rate = metrics.histogram(
    'berth_inference_tokens_per_second',
    'Output tokens per second of a stream after its first byte',
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000],
  )
  const all = new Map<string, Series>()

  const seriesOf = (model: string, deployment: string): Series => {
    const key = `${model}\n${deployment}`
    const existingSeries = all.get(key)
    if (existingSeries !== undefined) return existingSeries
    if (all.size < MAX_SERIES) return makeSeries(key, { model, deployment })
    return all.get(OTHERS) ?? makeSeries(OTHERS, { model: 'others', deployment: 'others' })
  }
  const makeSeries = (key: string, labels: { readonly model: string; readonly deployment: string }): Series => {
    const count = (outcome: EndedCall['outcome']) => requests.bind({ ...labels, outcome })
    const series: Series = {
      outcome: { answered: count('answered'), cut: count('cut'), broken: count('broken'), failed: count('failed') },
      inputTokens: tokens.bind({ ...labels, kind: 'input' }),
      cachedTokens: tokens.bind({ ...labels, kind: 'cached' }),
      outputTokens: tokens.bind({ ...labels, kind: 'output' }),
      firstByte: firstByte.bind(labels),
      total: total.bind(labels),
      rate: rate.bind(labels),
    }
    all.set(key, series)
    return series
  }

  return (ended) => {
    const deployment = ended.deployment ?? 'none'
    const series = seriesOf(ended.model, REPLICA_ID.test(deployment) ? 'replicas' : deployment)
    series.outcome[ended.outcome]()
    series.total(ended.totalMs / 1_000)
    const { inputTokens, cachedTokens, outputTokens } = ended.units
    if (inputTokens > 0) series.inputTokens(inputTokens)
    if (cachedTokens > 0) series.cachedTokens(cachedTokens)
    if (outputTokens > 0) series.outputTokens(outputTokens)
    if (ended.firstByteMs === null) return
    series.firstByte(ended.firstByteMs / 1_000)
    const streamedMs = ended.totalMs - ended.firstByteMs
    if (ended.streamed && streamedMs > 0 && outputTokens > 0) series.rate((outputTokens * 1_000) / streamedMs)
  }
}
