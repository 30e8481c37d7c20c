/** The order of a deployment as chosen and typed so far. */
import { useState } from 'react'
import { nanoUsdOf, usd, type NanoUsd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { useCall } from '../../api/query.ts'
import { flatten } from '../../form/entry.ts'
import { useFieldForm, type FieldForm } from '../../form/field-form.ts'
import { collect } from '../../form/field.ts'
import { optionalNumber } from '../../form/read.ts'
import { weightsFault } from '../deployment/fields.ts'
import type { CatalogModel } from './model.tsx'
import { HUB, IMAGE, isOwn, nameFor, quotedFields, recipeOf, sentFields, type Values } from './source.ts'

export type GpuOption = Reply<'listCatalogGpus'>['gpus'][number]

/** The GPUs of a replica with their listed price. */
export interface ChosenGpus {
  readonly option: GpuOption
  readonly count: number
  readonly perHour: NanoUsd
}

export interface DeployOrder {
  readonly form: FieldForm<'createManagedDeployment'>
  readonly options: ReturnType<typeof useCall<'listCatalogGpus'>>
  /** undefined: none is free that fits. */
  readonly gpus: ChosenGpus | undefined
  /** The body of a quote. undefined: too little is known for one. */
  readonly quoteBody: object | undefined
  /** Why it cannot be sent. */
  readonly whyNot: string | undefined
  /** The token of the hub, for models that need one. */
  readonly token: string
  readonly setToken: (token: string) => void
  /** Changes the values that belong to the source. query: what was searched for, which may be the name of a model. */
  readonly choose: (source: string, query: string) => void
}

/** The fields of a model that is not of the catalog. They are read before they are shown. */
const ownModel = { 'recipe.hubModel': '', 'recipe.image': '', 'recipe.weights': '' } as const

type Created = Reply<'createManagedDeployment'>

export function useOrder(
  source: string,
  model: CatalogModel | undefined,
  onDone: (created: Created) => void,
): DeployOrder {
  const [token, setToken] = useState('')
  const [initial] = useState(() => ({
    ...ownModel,
    kind: 'chat',
    'recipe.name': 'vllm',
    name: source,
    catalogModel: source,
  }))
  const options = useGpuOptions(source)
  const needsToken = model?.gated === true
  const env = needsToken && token.trim() !== '' ? { env: { HF_TOKEN: token.trim() } } : {}
  const gpusFor = (values: Values): ChosenGpus | undefined => chosenGpus(source, options.data?.gpus ?? [], values)
  const complete = (body: object, values: Values): object => ({ ...body, ...withGpus(body, gpusFor(values)), ...env })
  const form = useFieldForm('createManagedDeployment', {
    refreshes: ['listManagedDeployments'],
    initial,
    fields: (values) => sentFields(source, values),
    body: complete,
    check: ({ name, model: forAll, forEveryone, ...values }) => ({
      catalogModel: source === '' ? 'Choose a model' : undefined,
      name: !forEveryone && name.trim() === '' ? 'Enter a name' : undefined,
      model: forEveryone && forAll.trim() === '' ? 'Enter a name' : undefined,
      ...weightsFault(values),
    }),
    onDone,
  })
  const { values } = form
  const gpus = gpusFor(values)
  const lacksToken = needsToken && token.trim() === ''
  const isKnown = isOwn(source) ? isNamed(values) : source !== '' && gpus !== undefined && !lacksToken
  const quoted = flatten(quotedFields(source, values))
  return {
    form,
    options,
    gpus,
    quoteBody: isKnown ? complete(collect('createManagedDeployment', quoted, values), values) : undefined,
    whyNot: lacksToken
      ? 'Enter a token of the hub first'
      : gpus === undefined && source !== '' && !options.isPending
        ? 'No GPU that this model fits on is free'
        : undefined,
    token,
    setToken,
    choose: (next, query) => form.set(valuesFor(next, query, source, values)),
  }
}

/** The GPUs that can be chosen for a source. Those of the source before stay until the new ones are there. */
export function useGpuOptions(source: string): DeployOrder['options'] {
  const query =
    isOwn(source) || source === ''
      ? ({ recipe: source === IMAGE ? 'custom' : 'vllm' } as const)
      : { catalogModel: source }
  return useCall('listCatalogGpus', { query }, { keepsLast: true })
}

/** An own model is priced by the GPU; what fits of the catalog comes with its number of GPUs. */
function chosenGpus(source: string, options: readonly GpuOption[], values: Values): ChosenGpus | undefined {
  const fitting = options.filter(({ fits }) => fits)
  const option = fitting.find(({ gpuModel }) => gpuModel === values['gpus.model']) ?? fitting[0]
  if (option === undefined) return undefined
  const typed = optionalNumber(values['gpus.count']) ?? 1
  const count = isOwn(source) && Number.isInteger(typed) && typed > 0 ? typed : option.gpuCount
  const perHour = nanoUsdOf((usd(option.costPerHourUsd) * BigInt(count)) / BigInt(option.gpuCount))
  return { option, count, perHour }
}

function withGpus(body: object, gpus: ChosenGpus | undefined): object {
  if (gpus === undefined) return {}
  const typed = (body as { readonly gpus?: object }).gpus
  return { gpus: { ...typed, model: gpus.option.gpuModel, count: gpus.count } }
}

function isNamed(values: Values): boolean {
  return [values['recipe.hubModel'], values['recipe.image'], values['recipe.weights']].some(
    (text) => text.trim() !== '',
  )
}

/** A name that was not typed follows the model. A search for `owner/model` becomes the model of the hub. */
function valuesFor(source: string, query: string, before: string, values: Values): Partial<Values> {
  const hubModel = source === HUB && /^[^\s/]+\/[^\s/]+$/.test(query.trim()) ? query.trim() : values['recipe.hubModel']
  const isOwnName = values.name !== '' && values.name !== before
  const name = isOwn(source) ? nameFor(hubModel, { ...values, name: isOwnName ? values.name : '' }) : source
  return {
    catalogModel: isOwn(source) ? '' : source,
    'gpus.model': '',
    'recipe.name': recipeOf(source, values),
    'recipe.hubModel': hubModel,
    name: isOwnName && !isOwn(source) ? values.name : name,
  }
}
