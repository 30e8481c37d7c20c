/** The fields of a deployment: what runs (engine, model and GPUs), and how it scales. */
import { weights } from '../../../src/contract/weights.ts'
import { recipeChoices, type ManagedDeployment } from '../../../src/view/deployment.ts'
import type { FieldEntry } from '../../form/entry.ts'
import type { FieldValues } from '../../form/field.ts'

type Spec = ManagedDeployment['spec']
/** Both operations have the fields of a spec. */
type WithSpec = 'createManagedDeployment' | 'rolloutManagedDeployment'
/** Both operations have the fields of scaling. */
type WithScaling = 'createManagedDeployment' | 'changeManagedDeployment'

const EXAMPLE_WEIGHTS =
  '{ "mountPath": "/models", "files": [{ "path": "model.gguf", "bytes": 1000, "sha256": "…", "source": { "kind": "https", "url": "https://…" } }] }'

export function engineFields<Op extends WithSpec>(recipe: string): ReadonlyArray<FieldEntry<Op>> {
  const isCustom = recipe === 'custom'
  const fields: ReadonlyArray<FieldEntry<WithSpec>> = [
    ['recipe.name', { choices: recipeChoices }],
    !isCustom && 'recipe.hubModel',
    ['recipe.image', { placeholder: isCustom ? 'registry.example.com/engine:2' : 'The engine’s own', read: imageOf }],
    isCustom && ['recipe.port', { placeholder: '8000' }],
    'recipe.contextTokens',
    'recipe.weightsGib',
    [
      'recipe.weights',
      {
        label: 'Weights (JSON)',
        as: 'block',
        placeholder: EXAMPLE_WEIGHTS,
        hint: 'Files that the host downloads once and checks, as in the API. Leave empty if the engine downloads the model.',
        read: weightsOf,
      },
    ],
  ]
  return fields as ReadonlyArray<FieldEntry<Op>>
}

export const gpuFields = [
  'gpus.model',
  'gpus.count',
  'gpus.minMemoryGb',
  'gpus.region',
  'gpus.maxUsdPerGpuHour',
] as const satisfies ReadonlyArray<FieldEntry<WithSpec>>

export const scalingFields = [
  'replicas.min',
  'replicas.max',
  'scaling.targetOutstanding',
  'scaling.upDelaySeconds',
  'scaling.downDelaySeconds',
  'scaling.idleSeconds',
] as const satisfies ReadonlyArray<FieldEntry<WithScaling>>

/** The values of fields with several parts, as text. */
export function specTexts({ recipe: { image, weights: files } }: Spec) {
  return {
    'recipe.image': image === undefined ? '' : [image.name, image.tag].filter(Boolean).join(':'),
    'recipe.weights': files === undefined ? '' : JSON.stringify(files, null, 2),
  }
}

/** Text that is not JSON is passed on as text, which the schema rejects. */
function weightsOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Returns the fault in the weights and its place. */
export function weightsFault(values: Partial<FieldValues<WithSpec>>): {
  readonly 'recipe.weights': string | undefined
} {
  const text = values['recipe.weights'] ?? ''
  if (text.trim() === '') return { 'recipe.weights': undefined }
  const files = weightsOf(text)
  if (typeof files === 'string') return { 'recipe.weights': 'Not valid JSON' }
  const [issue] = weights.safeParse(files).error?.issues ?? []
  return { 'recipe.weights': issue && [issue.path.join('.'), issue.message].filter(Boolean).join(': ') }
}

/** Splits `name:tag`. The port of a registry is not a tag. */
function imageOf(typed: string): { name: string; tag?: string } {
  const text = typed.trim()
  const at = text.lastIndexOf(':')
  return at > text.lastIndexOf('/') ? { name: text.slice(0, at), tag: text.slice(at + 1) } : { name: text }
}
