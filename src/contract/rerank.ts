/** Reranking (v1): documents sorted by how well they answer a query. Three paths, because clients have three. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { modelName, openaiInference } from './inference.ts'

const MAX_DOCUMENTS = 1_000
const MAX_QUERY_CHARS = 100_000

/** An engine has no score for a blank text. */
const text = z.string().regex(/\S/, 'Must not be blank')

const rerankBody = z
  .looseObject({
    model: modelName,
    query: text.max(MAX_QUERY_CHARS),
    documents: z
      .array(z.union([text, z.looseObject({ text })]))
      .min(1)
      .max(MAX_DOCUMENTS)
      .describe('Texts, or objects with a `text`'),
    top_n: z.int().min(1).nullable().optional().describe('Number of results; default: all documents'),
    return_documents: z.boolean().nullable().optional().describe('Whether results contain the texts; default: false'),
  })
  .meta({ id: 'RerankRequest' })

const rerankReply = z
  .object({
    id: z.string(),
    model: z.string(),
    results: z
      .array(
        z.object({
          index: z.int().describe('Place of the document in the request'),
          relevance_score: z.number(),
          document: z.object({ text: z.string() }).optional(),
        }),
      )
      .describe('Highest score first'),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
    meta: z.object({ billed_units: z.object({ input_tokens: z.int() }) }),
  })
  .meta({ id: 'RerankResult' })

const example: z.input<typeof rerankBody> = {
  model: 'all-minilm-l6-v2',
  query: 'Where do ships moor?',
  documents: ['A berth is a place for a ship in a harbor.', 'Bread is baked from flour and water.'],
  top_n: 1,
}

const rerank = {
  ...openaiInference,
  method: 'POST',
  summary: 'Sort documents by relevance to a query',
  description:
    'Reranking models score each document together with the query. Embedding models are accepted too: their score is the cosine of the angle between query and document, and a text longer than their context is cut.',
  errors: [400, 401, 402, 403, 422, 500],
  body: rerankBody,
  example,
  response: rerankReply,
} as const

export const rerankEndpoints = {
  rerank: endpoint({ ...rerank, path: '/v1/rerank' }),
  rerankBySecondPath: endpoint({ ...rerank, path: '/v2/rerank', summary: `${rerank.summary} (second path)` }),
  rerankByThirdPath: endpoint({ ...rerank, path: '/rerank', summary: `${rerank.summary} (third path)` }),
}
