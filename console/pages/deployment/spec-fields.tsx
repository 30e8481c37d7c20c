/** Fields for what runs: engine, model and GPUs, for a new deployment and for a rollout. */
import { weights } from '../../../src/contract/weights.ts'
import type { ManagedDeployment } from '../../../src/view/deployment.ts'
import { recipeChoices } from '../../../src/view/deployment.ts'
import { editableUsd } from '../../../src/view/money.ts'
import { optionalNumber, optionalText } from '../../form/read.ts'
import type { Form } from '../../form/use-form.ts'
import { SelectField, TextArea, TextField } from '../../ui/field.tsx'

type Spec = ManagedDeployment['spec']

export interface SpecValues {
  readonly recipe: string
  readonly hubModel: string
  readonly image: string
  readonly port: string
  readonly context: string
  readonly weights: string
  readonly weightsGib: string
  readonly gpuModel: string
  readonly gpuCount: string
  readonly gpuMemory: string
  readonly region: string
  readonly maxPrice: string
}

export const specPaths = {
  recipe: 'recipe.name',
  hubModel: 'recipe.hubModel',
  image: 'recipe.image',
  port: 'recipe.port',
  context: 'recipe.contextTokens',
  weights: 'recipe.weights',
  weightsGib: 'recipe.weightsGib',
  gpuModel: 'gpus.model',
  gpuCount: 'gpus.count',
  gpuMemory: 'gpus.minMemoryGb',
  region: 'gpus.region',
  maxPrice: 'gpus.maxUsdPerGpuHour',
} as const satisfies Record<keyof SpecValues, string>

export const emptySpec: SpecValues = {
  recipe: 'vllm',
  hubModel: '',
  image: '',
  port: '',
  context: '',
  weights: '',
  weightsGib: '',
  gpuModel: '',
  gpuCount: '1',
  gpuMemory: '',
  region: '',
  maxPrice: '',
}

export function specValuesOf({ recipe, gpus }: Spec): SpecValues {
  return {
    recipe: recipe.name,
    hubModel: recipe.hubModel ?? '',
    image: recipe.image === undefined ? '' : [recipe.image.name, recipe.image.tag].filter(Boolean).join(':'),
    port: String(recipe.port ?? ''),
    context: String(recipe.contextTokens ?? ''),
    weights: recipe.weights === undefined ? '' : JSON.stringify(recipe.weights, null, 2),
    weightsGib: String(recipe.weightsGib ?? ''),
    gpuModel: gpus.model ?? '',
    gpuCount: String(gpus.count),
    gpuMemory: String(gpus.minMemoryGb ?? ''),
    region: gpus.region ?? '',
    maxPrice: editableUsd(gpus.maxUsdPerGpuHour ?? null),
  }
}

/** On top of what has no field here, such as the environment. */
export function specOf(values: SpecValues, before?: Spec) {
  const { image, port, context } = values
  return {
    recipe: {
      ...before?.recipe,
      name: values.recipe as Spec['recipe']['name'],
      hubModel: optionalText(values.hubModel),
      image: imageOf(image.trim()),
      port: optionalNumber(port),
      contextTokens: optionalNumber(context),
      weights: weightsOf(values.weights),
      weightsGib: optionalNumber(values.weightsGib),
    },
    gpus: {
      model: optionalText(values.gpuModel),
      count: optionalNumber(values.gpuCount),
      minMemoryGb: optionalNumber(values.gpuMemory),
      region: optionalText(values.region),
      maxUsdPerGpuHour: optionalText(values.maxPrice),
    },
  }
}

/** Text that is no JSON stays text, which the schema rejects. */
function weightsOf(text: string): Spec['recipe']['weights'] {
  if (text.trim() === '') return undefined
  try {
    return JSON.parse(text) as Spec['recipe']['weights']
  } catch {
    return text as never
  }
}

/** What is wrong with the weights, and where. */
export function weightsFault({ weights: text }: Pick<SpecValues, 'weights'>): string | undefined {
  const given: unknown = weightsOf(text)
  if (given === undefined) return undefined
  if (typeof given === 'string') return 'Not valid JSON'
  const [issue] = weights.safeParse(given).error?.issues ?? []
  return issue && [issue.path.join('.'), issue.message].filter(Boolean).join(': ')
}

/** `name:tag`; a port of the registry is no tag. */
function imageOf(text: string): { name: string; tag?: string } | undefined {
  if (text === '') return undefined
  const at = text.lastIndexOf(':')
  return at > text.lastIndexOf('/') ? { name: text.slice(0, at), tag: text.slice(at + 1) } : { name: text }
}

type SpecForm = Pick<Form<SpecValues>, 'text' | 'values'>

export function EngineFields({ form }: { form: SpecForm }) {
  const isCustom = form.values.recipe === 'custom'
  return (
    <>
      <SelectField label="Engine" choices={recipeChoices} {...form.text('recipe')} />
      {!isCustom && (
        <TextField
          label="Model on the hub"
          placeholder="OWNER/MODEL"
          hint="The engine downloads it, unless you give weights."
          {...form.text('hubModel')}
        />
      )}
      <TextField
        label="Image"
        placeholder={isCustom ? 'registry.example.com/engine:2' : 'The engine’s own'}
        {...form.text('image')}
      />
      {isCustom && (
        <TextField
          label="Port"
          inputMode="numeric"
          placeholder="8000"
          hint="Where the container speaks the OpenAI protocol."
          {...form.text('port')}
        />
      )}
      <TextField
        label="Context length (tokens)"
        inputMode="numeric"
        placeholder="The model’s own"
        {...form.text('context')}
      />
      <TextField
        label="Size of the weights (GiB)"
        inputMode="decimal"
        placeholder="Unknown"
        hint="Checks that the model fits before anything is rented."
        {...form.text('weightsGib')}
      />
      <div className="sm:col-span-2">
        <TextArea
          label="Weights (JSON)"
          placeholder='{ "mountPath": "/models", "files": [{ "path": "model.gguf", "bytes": 1000, "sha256": "…", "source": { "kind": "https", "url": "https://…" } }] }'
          hint="Files that the host downloads once and checks, as in the API. Leave empty if the engine downloads the model."
          spellCheck={false}
          {...form.text('weights')}
        />
      </div>
    </>
  )
}

export function GpuFields({ form }: { form: SpecForm }) {
  return (
    <>
      <TextField label="GPU model" placeholder="Any, or for example H100" {...form.text('gpuModel')} />
      <TextField label="GPUs per replica" inputMode="numeric" {...form.text('gpuCount')} />
      <TextField label="Memory per GPU (GB)" inputMode="numeric" placeholder="Any" {...form.text('gpuMemory')} />
      <TextField label="Region" placeholder="Any" {...form.text('region')} />
      <TextField
        label="Price cap per GPU-hour (USD)"
        inputMode="decimal"
        placeholder="None"
        {...form.text('maxPrice')}
      />
    </>
  )
}
