/**
 * Managed deployments: a model on rented GPUs, with replicas that Berth starts, checks, scales and replaces. Fields of
 * `spec` describe what runs, and a change of them is a rollout; `settings` apply at once.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { catalogModelId } from './catalog.ts'
import { endpoint } from './endpoint.ts'
import { modelKind } from './model.ts'
import { recipe } from './recipe.ts'
import { complete, message, nonNegativeUsd, priceUsd, textIdParams, timestamp, usdAmount } from './shared.ts'

const gpus = z.strictObject({
  model: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .meta({ title: 'GPU model', description: 'Name of the GPU, or a part of it; default: any', examples: ['H100'] }),
  minMemoryGb: z
    .number()
    .min(0)
    .max(10_000)
    .optional()
    .meta({ title: 'Memory per GPU', description: 'Memory that each GPU needs; default: any' }),
  count: z.int().min(1).max(64).default(1).meta({ title: 'GPUs per replica' }),
  region: z.string().min(1).max(100).optional().describe('Where replicas may run; default: anywhere'),
  maxUsdPerGpuHour: priceUsd.in
    .optional()
    .meta({ title: 'Price cap per GPU-hour (USD)', description: 'Highest price of a GPU; default: no cap' }),
})

/** The engine and the GPUs of a deployment. */
const specFields = {
  recipe,
  gpus: gpus.describe('Where replicas may run'),
}
export const deploymentSpec = z.object(specFields)
export type DeploymentSpec = z.output<typeof deploymentSpec>

/** The same in an order, which names a recipe or a model of the catalog. */
const orderedSpecFields = {
  catalogModel: catalogModelId.optional(),
  recipe: recipe.optional().describe('Required unless `catalogModel` is set'),
  gpus: gpus
    .extend({
      count: z
        .int()
        .min(1)
        .max(64)
        .optional()
        .meta({ title: 'GPUs per replica', description: 'GPUs per replica; default: 1, or what the catalog says' }),
    })
    .default({})
    .describe('Where replicas may run'),
  env: recipe.shape.env.describe('With `catalogModel`: variables of the engine, such as HF_TOKEN'),
}
export interface OrderedSpec {
  readonly catalogModel?: string | undefined
  readonly recipe?: DeploymentSpec['recipe'] | undefined
  readonly gpus: Omit<DeploymentSpec['gpus'], 'count'> & { readonly count?: number | undefined }
  readonly env?: DeploymentSpec['recipe']['env']
}

const replicaCount = z.int().min(0).max(limits.replicasPerDeployment)
const replicas = z.strictObject({
  min: replicaCount
    .default(0)
    .meta({ title: 'Minimum replicas', description: 'With 0, the first request starts one and waits for it' }),
  max: replicaCount
    .default(1)
    .meta({ title: 'Maximum replicas', description: 'Most replicas at a time; 0 pauses the deployment' }),
})
const seconds = z.int().min(0).max(86_400)
const scaling = z.strictObject({
  targetOutstanding: z.number().min(0.1).max(100_000).nullable().default(null).meta({
    title: 'Requests per replica',
    description: 'Requests, waiting or running, that scaling aims for; null: automatic, 70 % of what a replica can run',
  }),
  upDelaySeconds: seconds.default(5).meta({
    title: 'Delay before adding replicas',
    description: 'How long more must be needed before replicas are added',
  }),
  downDelaySeconds: seconds.default(120).meta({
    title: 'Delay before removing replicas',
    description: 'How long fewer must be enough before replicas are removed',
  }),
  idleSeconds: seconds.default(300).meta({
    title: 'Idle time before scaling to zero',
    description: 'Time without requests before the last replica ends; with a minimum of 0',
  }),
})

const hourlyBudget = nonNegativeUsd.in
  .nullable()
  .describe('Most that all replicas together may cost per hour; default: no limit')

const settingFields = {
  replicas: replicas,
  scaling,
  queueSeconds: z
    .int()
    .min(1)
    .max(3_600)
    .default(300)
    .describe('How long a request may wait for a replica; then it gets 503 with `Retry-After`'),
  drainSeconds: z
    .int()
    .min(0)
    .max(3_600)
    .default(120)
    .describe('How long a replica may finish its requests before it ends'),
  hourlyBudgetUsd: hourlyBudget.default(null),
}
export const deploymentSettings = z.object(settingFields)
export type DeploymentSettings = z.output<typeof deploymentSettings>

const noSettings = deploymentSettings.parse({ replicas: {}, scaling: {} })

/** With the defaults for what is not given. */
export function settingsOf(settings: {
  readonly [name in keyof DeploymentSettings]?: DeploymentSettings[name] | undefined
}): DeploymentSettings {
  return {
    replicas: settings.replicas ?? noSettings.replicas,
    scaling: settings.scaling ?? noSettings.scaling,
    queueSeconds: settings.queueSeconds ?? noSettings.queueSeconds,
    drainSeconds: settings.drainSeconds ?? noSettings.drainSeconds,
    hourlyBudgetUsd: settings.hourlyBudgetUsd ?? noSettings.hourlyBudgetUsd,
  }
}

const sharedWith = z.array(z.string().min(1).max(100)).max(limits.sharedAccounts)

export const replicaState = z.enum(['starting', 'ready', 'draining', 'ended'])
export type ReplicaState = z.output<typeof replicaState>

const replicaRecord = z
  .object({
    id: z.string(),
    version: z.int(),
    state: replicaState,
    reason: z.string().nullable().describe('Why it is draining or has ended'),
    detail: z.string().nullable().describe('Result of the last readiness check'),
    rentalId: z.int(),
    rentalName: z.string(),
    rentalStatus: z.string(),
    node: z.string().nullable(),
    gpuModel: z.string().nullable(),
    costPerHourUsd: usdAmount,
    inFlight: z.int().describe('Requests in progress, of all servers'),
    createdAt: timestamp,
    startedAt: timestamp.nullable().describe('When its machine ran'),
    readyAt: timestamp
      .nullable()
      .describe(
        'When it first answered; charged from here on, or earlier once the free start time of the day is used up',
      ),
    endedAt: timestamp.nullable(),
    coldStart: z
      .object({
        claimSeconds: z.number().nullable().describe('From the order until its machine was asked for'),
        pullSeconds: z.number().nullable().describe('Until its container ran: image and weights'),
        loadSeconds: z.number().nullable().describe('Until its engine took the first request'),
        firstTokenSeconds: z
          .number()
          .nullable()
          .describe('Until it answered that request: one token, or the smallest job'),
      })
      .describe('Where the time of its start went; null: not over yet'),
  })
  .meta({ id: 'Replica' })

const deploymentStatus = z
  .enum(['idle', 'starting', 'ready', 'waiting', 'failed', 'deleting'])
  .describe('`idle`: no replicas, the first request starts one. `waiting`: no machine could be ordered')
export type DeploymentStatus = z.output<typeof deploymentStatus>

const managedDeployment = z
  .object({
    id: z.string(),
    model: z.string().describe('Name that requests use'),
    kind: modelKind,
    adapters: z.array(z.string()).describe('Models that it serves as LoRA adapters'),
    visibility: z.enum(['private', 'everyone']),
    sharedWith,
    status: deploymentStatus,
    message: z.string().nullable().describe('What it waits for or why it failed'),
    version: z.int().describe('Newest version'),
    readyVersion: z.int().nullable().describe('Last version that answered; it serves until the newest is ready'),
    rollout: z.enum(['done', 'in_progress', 'failed']),
    desiredReplicas: z.int(),
    scalingReason: z.string(),
    readyReplicas: z.int(),
    outstandingRequests: z.number().describe('Waiting and running, of all servers'),
    costPerHourUsd: usdAmount.describe('Of all replicas that run now'),
    spec: complete(deploymentSpec),
    settings: complete(deploymentSettings),
    replicas: z.array(replicaRecord).describe('Newest first; ended ones are kept for a day'),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'ManagedDeployment' })

const deployment = { family: 'v2', tag: 'Deployments' } as const
const base = '/v2/deployments'
const { replicas: _, ...summaryFields } = managedDeployment.shape
const summary = z.object(summaryFields).meta({ id: 'ManagedDeploymentSummary' })

export const managedDeploymentEndpoints = {
  listManagedDeployments: endpoint({
    ...deployment,
    method: 'GET',
    path: base,
    access: ['compute:read'],
    summary: 'List your managed deployments',
    errors: [400, 401, 403, 500],
    response: z.object({ deployments: z.array(summary) }),
  }),
  getManagedDeployment: endpoint({
    ...deployment,
    method: 'GET',
    path: `${base}/{id}`,
    access: ['compute:read'],
    summary: 'Get a managed deployment with its replicas',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: managedDeployment,
  }),
  createManagedDeployment: endpoint({
    needsTerms: true,
    ...deployment,
    method: 'POST',
    path: base,
    access: ['compute:write', 'operator'],
    summary: 'Serve a model on rented GPUs',
    description:
      'Replicas are rentals of your account: you pay for their GPU time from the moment a replica first answers, and nothing per token. Starts are free for some GPU-minutes per day; see `freeStartMinutesLeft` of the quote. The model is visible to your account only, as `ACCOUNT/NAME`. With `forEveryone` (scope `operator`) it serves all accounts at the prices of the model, and the house pays for the GPUs.',
    errors: [400, 401, 403, 404, 500],
    body: z
      .strictObject({
        name: z
          .string()
          .regex(/^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,99}$/, 'Must be letters, digits and . _ : @ + -, at most 100')
          .optional()
          .describe('Name of the model in your account; default: that of the catalog'),
        model: z
          .string()
          .regex(/^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/, 'Must be letters, digits and . _ : / @ + -, at most 200')
          .optional()
          .describe('With `forEveryone`: the model to serve; it is created if it does not exist'),
        kind: modelKind.optional().describe('Default: that of the catalog, or `chat`'),
        forEveryone: z.boolean().optional().meta({
          title: 'Serve everyone',
          description:
            'The house pays for the GPUs, and requests are sold at the prices of the model; needs scope `operator`',
        }),
        sharedWith: sharedWith.optional().describe('IDs of other accounts that may use it'),
        contextTokens: z.int().min(1).max(100_000_000).optional(),
        supportsTools: z
          .boolean()
          .optional()
          .describe('Accept requests with tools; default: if its engine can parse tool calls'),
        supportsImageInput: z
          .boolean()
          .optional()
          .describe('Accept requests with images; default: as the catalog says, or no'),
        ...orderedSpecFields,
        replicas: settingFields.replicas.optional(),
        scaling: scaling.optional(),
        queueSeconds: settingFields.queueSeconds.optional(),
        drainSeconds: settingFields.drainSeconds.optional(),
        hourlyBudgetUsd: settingFields.hourlyBudgetUsd.optional(),
      })
      .meta({ id: 'CreateManagedDeployment' }),
    response: managedDeployment,
    idempotent: true,
  }),
  quoteManagedDeployment: endpoint({
    ...deployment,
    method: 'POST',
    path: `${base}/quote`,
    access: ['compute:read', 'operator'],
    summary: 'Show what a replica would cost now, without ordering it',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        kind: modelKind.optional(),
        forEveryone: z.boolean().optional(),
        ...orderedSpecFields,
      })
      .meta({ id: 'QuoteManagedDeployment' }),
    response: z.object({
      costPerHourUsd: usdAmount.describe('Of one replica, on the cheapest machine that fits'),
      gpuModel: z.string(),
      region: z.string(),
      node: z.string(),
      gpuCount: z.int().describe('GPUs of one replica'),
      kvTokens: z.int().nullable().describe('Tokens of all contexts together that a replica can keep. null: not known'),
      freeStartMinutesLeft: z
        .number()
        .describe('GPU-minutes that starts of your account still have free today (UTC); beyond, starts are charged'),
    }),
  }),
  changeManagedDeployment: endpoint({
    ...deployment,
    method: 'PATCH',
    path: `${base}/{id}`,
    access: ['compute:write', 'operator'],
    summary: 'Change replicas, scaling, limits or sharing; applies at once',
    description: '`replicas` with `max` 0 pauses the deployment.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        replicas: settingFields.replicas.optional(),
        scaling: scaling.optional(),
        queueSeconds: z.int().min(1).max(3_600).optional(),
        drainSeconds: z.int().min(0).max(3_600).optional(),
        hourlyBudgetUsd: hourlyBudget.optional(),
        sharedWith: sharedWith.optional(),
      })
      .meta({ id: 'ChangeManagedDeployment' }),
    response: managedDeployment,
  }),
  rolloutManagedDeployment: endpoint({
    ...deployment,
    method: 'POST',
    path: `${base}/{id}/rollout`,
    access: ['compute:write', 'operator'],
    summary: 'Roll out a new version: its replicas answer before old ones drain',
    description:
      'Without fields, the same version starts again, also after a failure. If no GPU is spare the rollout waits and says so; with `inPlace`, an old replica ends first.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        recipe: recipe.optional(),
        gpus: gpus.optional(),
        inPlace: z.boolean().optional().meta({
          title: 'End an old replica first if no GPU is free',
          description: 'Otherwise the rollout waits for a spare GPU',
        }),
      })
      .meta({ id: 'RolloutManagedDeployment' }),
    response: managedDeployment,
  }),
  deleteManagedDeployment: endpoint({
    ...deployment,
    method: 'DELETE',
    path: `${base}/{id}`,
    access: ['compute:write', 'operator'],
    summary: 'Delete a managed deployment; its replicas finish their requests and end',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
