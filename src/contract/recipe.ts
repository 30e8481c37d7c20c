/** How a model is served: the engine and its options. `domain/recipe.ts` turns it into a container. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { gpuVendor } from './shared.ts'
import { programFields } from './workload.ts'
import { weights } from './weights.ts'

export const recipeName = z.enum([
  'vllm',
  'vllm-omni',
  'sglang',
  'llama.cpp',
  'tei',
  'tgi',
  'diffusion',
  'kokoro',
  'speech',
  'berth-engine',
  'custom',
])
export type RecipeName = z.output<typeof recipeName>

const relativePath = z
  .string()
  .max(400)
  .regex(/^[A-Za-z0-9][\w.@+-]*(\/[A-Za-z0-9][\w.@+-]*)*$/, 'Must be a relative path of letters, digits and . _ - @ +')

const parserName = z.string().regex(/^[A-Za-z0-9_-]{1,50}$/, 'Must be letters, digits and _ -, at most 50')

const adapter = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/, 'Must be letters, digits and . _ : / @ + -, at most 200')
    .describe('Name of the model that requests use; of a private deployment, it follows `ACCOUNT/`'),
  path: relativePath.describe('Folder or file of the adapter in the weights'),
  sharedWith: z
    .array(z.string().min(1).max(100))
    .max(limits.sharedAccounts)
    .optional()
    .describe('Only these accounts may use it, and the owner; default: as the deployment'),
})

export const recipe = z
  .strictObject({
    name: recipeName.meta({ title: 'Engine' }),
    image: z
      .strictObject({ name: z.string().min(1).max(500), tag: z.string().min(1).max(128).optional() })
      .optional()
      .describe("Default: the recipe's image; required for `custom`"),
    hubModel: z
      .string()
      .regex(/^[A-Za-z0-9][\w.-]{0,99}\/[A-Za-z0-9][\w.-]{0,99}$/, 'Must be like OWNER/MODEL')
      .optional()
      .meta({
        title: 'Model on the hub',
        description: 'Model that the engine downloads itself, if there are no `weights`',
        examples: ['OWNER/MODEL'],
      }),
    weights: weights.optional().describe('Files that the host downloads once and mounts read-only'),
    modelPath: relativePath
      .optional()
      .describe('The model in the weights; default: all of them, or the only GGUF file'),
    weightsGib: z.number().positive().max(100_000).optional().meta({
      title: 'Size of the weights',
      description: 'Checks that the model fits before anything is rented; default: the size of `weights`',
    }),
    contextTokens: z
      .int()
      .min(1)
      .max(100_000_000)
      .optional()
      .meta({ title: 'Context length', description: 'Longest context of a request; default: that of the model' }),
    kvBytesPerToken: z
      .int()
      .min(1)
      .max(100_000_000)
      .optional()
      .describe('Size of the key-value cache per token, to check whether the model fits with its context'),
    attentionHeads: z.int().min(1).max(10_000).optional().describe('The number of GPUs must divide it'),
    parsers: z
      .strictObject({
        tools: parserName.optional().describe('Parser of tool calls'),
        reasoning: parserName.optional().describe('Parser that separates thinking from the answer'),
      })
      .optional()
      .describe(
        "`vllm` and `sglang`: names of the engine's parsers; default: those of the model's family, `{}` for none",
      ),
    gpuVendor: gpuVendor
      .optional()
      .describe(
        'Vendor of the GPUs that the image is for; default: nvidia. Machines of another vendor are not ordered',
      ),
    cuda: z
      .string()
      .regex(/^\d{1,3}\.\d{1,2}$/, 'Must be like 13.0')
      .optional()
      .describe("Least CUDA version that a machine's driver must support; default: that of the recipe's image"),
    concurrency: z
      .int()
      .min(1)
      .max(10_000)
      .optional()
      .describe('Requests that a replica processes at once; default: that of the engine'),
    adapters: z.array(adapter).max(limits.adapters).optional().describe('LoRA adapters, served as models of their own'),
    env: programFields.env,
    command: programFields.command.describe('`custom` only'),
    args: programFields.args.describe("Added to the engine's arguments; for `custom`, replaces the image's command"),
    port: z.int().min(1).max(65_535).optional().describe('Port of the server in the container'),
    healthPath: z
      .string()
      .max(500)
      .regex(/^\/[\x21-\x7e]*$/, 'Must be a path such as /health')
      .optional()
      .describe('`custom` only'),
    shmGb: programFields.shmGb,
    startSeconds: z.int().min(10).max(7_200).optional().describe('Time from its start until it must answer'),
  })
  .meta({ id: 'Recipe' })
export type RecipeOrder = z.output<typeof recipe>
