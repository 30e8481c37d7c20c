/**
 * The model catalog: models that can be deployed by name, with the engines, the parsers and the memory that they need. It is
 * one file, built in as src/domain/model-catalog.json; an operator can replace it.
 */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { modelKind } from './model.ts'
import { recipeName } from './recipe.ts'
import { usdAmount } from './shared.ts'

const MAX_ENTRIES = 1_000
const MAX_ARGS = 50

const id = z.string().regex(/^[a-z0-9][a-z0-9._-]{0,99}$/, 'Must be lower-case letters, digits and . _ -, at most 100')
const version = z.string().min(1).max(50)
const args = z.array(z.string().min(1).max(500)).max(MAX_ARGS)
const parserName = z.string().regex(/^[a-z0-9_-]{1,50}$/i, 'Must be letters, digits and _ -, at most 50')

const image = z.strictObject({ name: z.string().min(1).max(500), tag: z.string().min(1).max(128) })

const engineDefaults = z
  .strictObject({
    image,
    amdImage: image.optional().describe('The image for AMD GPUs'),
    version: version.describe('Version of the engine in the image'),
    cuda: z
      .string()
      .regex(/^\d{1,3}\.\d{1,2}$/, 'Must be like 13.0')
      .optional()
      .describe('Least CUDA version that the driver of a machine must support'),
  })
  .describe('The image of a recipe')

/** Names of the engine's parsers; they differ between engines. */
const parsers = z.strictObject({
  tools: parserName.optional(),
  reasoning: parserName.optional(),
  args: args.optional(),
})

const family = z.strictObject({
  id,
  names: z.array(z.string().min(1).max(100)).min(1).max(50).describe('How names of its models begin, in lower case'),
  vllm: parsers.optional(),
  sglang: parsers.optional(),
})

const variant = z.strictObject({
  precision: z.string().min(1).max(20),
  hubModel: z.string().min(1).max(200).optional().describe('Absent: the image contains the model'),
  minGb: z.number().positive().max(100_000).describe('Least GPU memory of all GPUs of a replica together'),
  weightsGib: z.number().positive().max(100_000).optional(),
  kvBytesPerToken: z.int().positive().max(100_000_000).optional(),
  engines: z
    .partialRecord(recipeName, z.strictObject({ minVersion: version.optional(), args: args.optional() }))
    .refine((value) => Object.keys(value).length > 0, 'Must name at least one engine'),
})

const abilities = z.array(z.enum(['tools', 'thinking', 'vision']))

const model = z.strictObject({
  id,
  title: z.string().min(1).max(100),
  license: z.string().min(1).max(100).nullable().describe("null: see the model's page"),
  gated: z.boolean().describe('Its files need a token of the hub'),
  kind: modelKind,
  family: id.optional(),
  contextTokens: z.int().positive().max(100_000_000).optional(),
  abilities,
  attentionHeads: z.int().positive().max(10_000).optional().describe('The GPU count of a replica divides it'),
  variants: z.array(variant).min(1).max(20).describe('Preferred first, if they cost the same'),
  checked: z
    .strictObject({ date: z.iso.date(), engine: z.string().max(100), gpu: z.string().max(100) })
    .optional()
    .describe('When it last answered on a real GPU'),
})

export const catalogFile = z
  .strictObject({
    version: z.literal(1),
    date: z.iso.date(),
    engines: z.partialRecord(recipeName, engineDefaults),
    families: z.array(family).max(MAX_ENTRIES),
    models: z.array(model).max(MAX_ENTRIES),
  })
  .superRefine(({ families, models }, context) => {
    const familyIds = new Set(families.map((one) => one.id))
    const modelNames = new Set<string>()
    for (const [index, one] of models.entries()) {
      const path = ['models', index]
      if (one.family !== undefined && !familyIds.has(one.family))
        context.addIssue({ code: 'custom', path: [...path, 'family'], message: `There is no family ${one.family}` })
      if (modelNames.has(one.id))
        context.addIssue({ code: 'custom', path: [...path, 'id'], message: `${one.id} is there twice` })
      modelNames.add(one.id)
    }
  })
export type CatalogFile = z.output<typeof catalogFile>
export type CatalogModel = CatalogFile['models'][number]

export const catalogModelId = id.describe(
  'A model of the catalog: Berth chooses its recipe and the cheapest GPUs that fit',
)

const catalogEntry = z
  .object({
    id: z.string(),
    title: z.string(),
    kind: modelKind,
    license: z.string().nullable(),
    gated: z.boolean().describe('Needs a token of the hub as the variable HF_TOKEN'),
    contextTokens: z.int().nullable(),
    abilities,
    minGb: z.number().describe('Least GPU memory of a replica, of its smallest variant'),
    checkedAt: z.string().nullable().describe('Day on which it last answered on a real GPU'),
    fit: z
      .object({
        precision: z.string(),
        recipe: recipeName,
        gpuModel: z.string(),
        gpuCount: z.int(),
        region: z.string(),
        costPerHourUsd: usdAmount,
      })
      .nullable()
      .describe('The cheapest machines that fit and are free now. null: there are none'),
    whyNot: z.string().nullable().describe('Why there is no fit'),
    whyNotReason: z.string().nullable().describe('The same as a code from the list of errors'),
  })
  .meta({ id: 'CatalogModel' })

const gpuFit = z
  .object({
    gpuModel: z.string(),
    gpuMemoryGb: z.number().describe('Of one GPU'),
    gpuCount: z.int().describe('GPUs of one replica: the cheapest number that fits'),
    region: z.string().describe('The region of the cheapest machine'),
    costPerHourUsd: usdAmount.describe('Of one replica'),
    fits: z.boolean().describe('Whether the model fits; true if none is named'),
    whyNotReason: z.string().nullable().describe('Why it does not fit, as a code from the list of errors'),
  })
  .meta({ id: 'CatalogGpu' })

export const catalogEndpoints = {
  listCatalog: endpoint({
    family: 'v2',
    tag: 'Deployments',
    method: 'GET',
    path: '/v2/catalog',
    access: ['compute:read'],
    summary: 'List models that can be deployed by name, with what a replica would cost now',
    errors: [400, 401, 403, 500],
    query: z.strictObject({ kind: modelKind.optional().describe('Only models of this kind') }),
    response: z.object({
      models: z.array(catalogEntry),
      date: z.string().describe('Day of the catalog'),
      source: z.string().describe('`built-in`, or the file or URL that the operator has set'),
      problem: z.string().nullable().describe('Why the newest catalog of the operator is not in use'),
    }),
  }),
  listCatalogGpus: endpoint({
    family: 'v2',
    tag: 'Deployments',
    method: 'GET',
    path: '/v2/catalog/gpus',
    access: ['compute:read'],
    summary: 'List the GPU models that are free for a deployment now, with what a replica would cost on each',
    description: 'Simulated machines cannot run models and are left out.',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      catalogModel: id.optional().describe('Say whether this model of the catalog fits; default: no model'),
      recipe: recipeName.default('vllm').describe('Without a model: the recipe, which may need no GPU memory'),
    }),
    response: z.object({
      gpus: z.array(gpuFit).describe('Those that fit first, each part cheapest first'),
      simulated: z.int().describe('GPU models that are free on simulated machines only'),
    }),
  }),
}
