/**
 * Reranking. Engines offer it in two formats, and models of embeddings do it by the angles between their vectors. Each
 * document gets one score, and the client gets the documents sorted, whatever order the engine uses.
 */
import { randomUUID } from 'node:crypto'
import { noUnits } from '../../domain/inference.ts'
import type { Deployment } from '../catalog.ts'
import { parseObject } from '../dialect/usage.ts'
import type { Collected } from '../upstream/collect.ts'
import { embeddingRequest, json, protocolFault, readVectors, tokensOf } from './media-work.ts'
import type { MediaWork } from './media.ts'

export interface RerankBody {
  readonly model: string
  readonly query: string
  readonly documents: ReadonlyArray<string | { readonly text: string }>
  readonly top_n?: number | null | undefined
  readonly return_documents?: boolean | null | undefined
}

/** The maximum of tokens that an engine adds around a query and a document: some models add instructions. */
const TEMPLATE_TOKENS = 200

interface Scores {
  /** One score per document, in the order of the documents. */
  readonly scores: readonly number[]
  /** undefined: the engine reports none. */
  readonly tokens: number | undefined
}

export function rerankWork(body: RerankBody): MediaWork {
  const texts = body.documents.map((document) => (typeof document === 'string' ? document : document.text))
  // A cross-encoder reads the query together with each document. The number of bytes is at least the number of tokens.
  const queryBytes = Buffer.byteLength(body.query) + TEMPLATE_TOKENS
  const inputTokens = texts.reduce((sum, text) => sum + Buffer.byteLength(text) + queryBytes, 0)
  const workOf = ({ kind, protocols, scoresOf }: Scorer, request: MediaWork['request']): MediaWork => ({
    operation: 'rerank',
    kind,
    modelName: body.model,
    modelField: 'model',
    maxUnits: { ...noUnits, inputTokens },
    refusal: (deployment) => protocolFault(deployment, protocols, 'model'),
    request,
    read: (collected) => {
      const answer = scoresOf(collected, texts.length)
      if (answer === undefined || answer.scores.length !== texts.length) return undefined
      const tokens = Math.min(answer.tokens ?? Math.ceil(inputTokens / 4), inputTokens)
      return { body: resultOf(body, texts, answer.scores, tokens), units: { ...noUnits, inputTokens: tokens } }
    },
    body: { ...body },
  })
  return {
    ...workOf(crossEncoder, (deployment) => rerankRequest(deployment, body.query, texts)),
    substitutes: {
      embedding: workOf(embedder, (deployment) =>
        embeddingRequest(deployment, { model: body.model, input: [body.query, ...texts], truncate: true }),
      ),
    },
  }
}

interface Scorer {
  readonly kind: MediaWork['kind']
  readonly protocols: ReadonlyArray<Deployment['protocol']>
  readonly scoresOf: (collected: Collected, count: number) => Scores | undefined
}

const crossEncoder: Scorer = { kind: 'rerank', protocols: ['chat', 'tei'], scoresOf: readScores }
const embedder: Scorer = { kind: 'embedding', protocols: ['chat', 'embedded'], scoresOf: readCosines }

function rerankRequest({ protocol, upstreamModel, members }: Deployment, query: string, texts: readonly string[]) {
  if (protocol === 'tei') return json('/rerank', { query, texts, truncate: true })
  return json('/v1/rerank', { model: upstreamModel, query, documents: texts, ...members })
}

/** Engines answer with a list, or with an object that contains it, in any order. */
function readScores({ head, body }: Collected, count: number): Scores | undefined {
  const answer = JSON.parse(body.toString('utf8')) as { results?: unknown; usage?: unknown } | unknown[]
  const list = Array.isArray(answer) ? answer : answer.results
  if (!Array.isArray(list)) return undefined
  const scores = new Map<number, number>()
  for (const one of list as Array<{ index?: unknown; relevance_score?: unknown; score?: unknown } | null>) {
    const score = one?.relevance_score ?? one?.score
    const index = one?.index
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= count) return undefined
    if (typeof score !== 'number' || !Number.isFinite(score) || scores.has(index)) return undefined
    scores.set(index, score)
  }
  const reported = Array.isArray(answer) ? Number(head.headers.get('x-compute-tokens')) : tokensOf(answer.usage)
  const tokens = Number.isSafeInteger(reported) && Number(reported) > 0 ? Number(reported) : undefined
  const sorted = [...scores].toSorted(([one], [other]) => one - other)
  return { scores: sorted.map(([, score]) => score), tokens }
}

function readCosines({ body }: Collected): Scores | undefined {
  const answer = parseObject(body.toString('utf8'))
  const [query, ...documents] = readVectors(answer?.['data']) ?? []
  if (query === undefined) return undefined
  return { scores: documents.map((document) => cosineOf(query, document)), tokens: tokensOf(answer?.['usage']) }
}

function cosineOf(one: readonly number[], other: readonly number[]): number {
  const product = (a: readonly number[], b: readonly number[]): number =>
    a.reduce((sum, value, place) => sum + value * (b[place] ?? 0), 0)
  const lengths = Math.sqrt(product(one, one) * product(other, other))
  return lengths === 0 ? 0 : product(one, other) / lengths
}

function resultOf(body: RerankBody, texts: readonly string[], scores: readonly number[], tokens: number) {
  const results = scores
    .map((score, index) => ({
      index,
      relevance_score: score,
      ...(body.return_documents === true ? { document: { text: texts[index] ?? '' } } : {}),
    }))
    .toSorted((one, other) => other.relevance_score - one.relevance_score)
    .slice(0, body.top_n ?? texts.length)
  return {
    id: `rerank-${randomUUID()}`,
    model: body.model,
    results,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
    meta: { billed_units: { input_tokens: tokens } },
  }
}
