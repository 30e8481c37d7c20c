/** A deployment runs a model of the catalog, one of the hub, or an image of one's own. Each has its fields. */
import { recipeChoices } from '../../../src/view/deployment.ts'
import { flatten, type FieldEntry } from '../../form/entry.ts'
import type { FieldPath, FieldValues } from '../../form/field.ts'
import { engineFields, gpuFields, scalingFields } from '../deployment/fields.ts'

type Op = 'createManagedDeployment'
export type Values = FieldValues<Op>
export type Entry = FieldEntry<Op>
type Path = FieldPath<Op>

/** The values are no models of the catalog: its ids have no colon. */
export const HUB = ':hub'
export const IMAGE = ':image'

export function isOwn(source: string): boolean {
  return source === HUB || source === IMAGE
}

/** The engine that is offered first. The values change with the source. */
export function recipeOf(source: string, { 'recipe.name': name }: Values): string {
  if (source === IMAGE) return 'custom'
  return name === 'custom' ? 'vllm' : name
}

const mainPaths: readonly Path[] = ['recipe.hubModel', 'recipe.image', 'recipe.port', 'kind', 'recipe.name']

/** The fields of the first step. */
export function sourceFields(source: string, values: Values): readonly Entry[] {
  if (!isOwn(source)) return []
  return specFields(source, values).filter((entry) => mainPaths.includes(pathOf(entry)))
}

/** The fields that few deployments need. */
export function advancedFields(source: string, values: Values): readonly Entry[] {
  const elsewhere: readonly Path[] = [...mainPaths, 'gpus.model', 'gpus.count', 'replicas.min', 'replicas.max']
  return [...gpuFields, ...scalingFields, ...specFields(source, values)].filter(
    (entry) => !elsewhere.includes(pathOf(entry)),
  )
}

/** The fields that a quote needs. */
export function quotedFields(source: string, values: Values): readonly Entry[] {
  const recipe: readonly Entry[] = source === IMAGE ? ['recipe.name'] : []
  return [
    ...(isOwn(source) ? recipe : (['catalogModel'] as const)),
    ...specFields(source, values),
    ...gpuFields,
    'forEveryone',
  ]
}

/** Every field that is sent. */
export function sentFields(source: string, values: Values): readonly Entry[] {
  return [...quotedFields(source, values), ...scalingFields, 'hourlyBudgetUsd', values.forEveryone ? 'model' : 'name']
}

function specFields(source: string, values: Values): readonly Entry[] {
  if (!isOwn(source)) return []
  const fields = flatten(engineFields<Op>(recipeOf(source, values)))
  const entries = fields.flatMap(([path, look]): Entry[] => {
    if (path === 'recipe.hubModel') return [[path, { ...look, also: (text) => ({ name: nameFor(text, values) }) }]]
    if (path !== 'recipe.name') return [[path, look]]
    // An own image has no engine to choose.
    return source === IMAGE ? [] : [[path, { choices: recipeChoices.filter(({ value }) => value !== 'custom') }]]
  })
  // The image of an engine is its own affair; an own image comes first.
  const isMain = (entry: Entry): boolean => source === IMAGE || pathOf(entry) !== 'recipe.image'
  return [...entries.filter(isMain), ...entries.filter((entry) => !isMain(entry)), 'kind']
}

function pathOf(entry: Entry): Path {
  return flatten<Op>([entry])[0]?.[0] ?? 'name'
}

/** `Qwen/Qwen3-8B` is called `qwen3-8b` unless another name was typed. */
export function nameFor(hubModel: string, { name, 'recipe.hubModel': before }: Values): string {
  return name === '' || name === nameOf(before) ? nameOf(hubModel) : name
}

function nameOf(hubModel: string): string {
  const last = hubModel.slice(hubModel.lastIndexOf('/') + 1)
  return last.trim().toLowerCase()
}
