/**
 * Adds a model that runs on an engine of this server or on a deployment. A deployment takes a second request; if that
 * fails, the model is deleted again, so that the form can be corrected and sent again.
 */
import { useMutation } from '@tanstack/react-query'
import type { z } from 'zod'
import { ApiError, type ClientError } from '../../../src/client/error.ts'
import type { CallInput } from '../../../src/client/client.ts'
import { api } from '../../../src/contract/api.ts'
import { modelKindLabels, type Model } from '../../../src/view/model.ts'
import { call, refresh } from '../../api/query.ts'
import { makeOnceKey } from '../../api/once.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { flatten, type FieldEntry } from '../../form/entry.ts'
import { collect, valuesOf, type FieldValues } from '../../form/field.ts'
import { Fields } from '../../form/fields.tsx'
import { optionalText } from '../../form/read.ts'
import { useForm } from '../../form/use-form.ts'
import { choicesIn } from '../../list/filter.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { newDeploymentFields } from './deployment.tsx'
import { priceFields } from './price.ts'

/** Kinds that are missing here run on deployments only. */
const engines: Readonly<Partial<Record<Model['kind'], NonNullable<NewModel['engine']>>>> = {
  chat: 'llama',
  embedding: 'embedding',
  image: 'picture',
  speech: 'speech',
}

interface OwnValues {
  readonly place: string
  readonly source: string
  readonly sha256: string
}
type Values = FieldValues<'createModel'> & FieldValues<'createDeployment'> & OwnValues

type NewModel = CallInput<'createModel'>['body']
type NewDeployment = CallInput<'createDeployment'>['body']
interface Offer {
  readonly model: NewModel
  readonly deployment: NewDeployment | undefined
}

export function AddModelDialog({ onClose }: { onClose: () => void }) {
  const action = useMutation<void, ClientError, Offer>({ mutationFn: offerModel })
  const form = useForm({
    initial: (): Values => ({
      ...valuesOf('createDeployment'),
      ...valuesOf('createModel'),
      place: 'server',
      source: '',
      sha256: '',
    }),
    body: offerOf,
    schema: offerSchema,
    paths: { source: 'files.0.source', sha256: 'files.0.sha256' },
    action,
    send: (offer) =>
      action.mutate(offer, {
        onSuccess: () => {
          toast(`Added ${offer.model.name}.`)
          onClose()
        },
      }),
  })
  const kind = form.values.kind as Model['kind']
  const modelForm = { ...form, operation: 'createModel', entries: modelFields(kind) } as const
  const deploymentForm = { ...form, operation: 'createDeployment', entries: newDeploymentFields(kind) } as const
  return (
    <FormDialog title="Add a model" wide form={form} action="Add model" onClose={onClose}>
      <SelectField
        label="Runs on"
        choices={choicesIn({
          server: 'A deployment',
          ...(engines[kind] === undefined ? {} : { engine: `This server (engine ${engines[kind]})` }),
        })}
        {...form.text('place')}
      />
      <Fields form={modelForm} wide />
      {placeOf(form.values) === 'server' ? (
        <fieldset>
          <legend className="mb-2 text-sm font-semibold">Deployment</legend>
          <Fields form={deploymentForm} wide />
        </fieldset>
      ) : hasFile(form.values) ? (
        <fieldset className="flex flex-col gap-3">
          <legend className="mb-2 text-sm font-semibold">GGUF file</legend>
          <TextField
            label="Source"
            hint="hf:OWNER/REPO/PATH, npm:PACKAGE@VERSION/PATH, https://… or file:PATH on this server."
            {...form.text('source')}
          />
          <TextField label="SHA-256" hint="Leave empty to trust and pin the first download." {...form.text('sha256')} />
        </fieldset>
      ) : (
        <p className="text-sm text-muted">The engine {engines[kind]} has its own model.</p>
      )}
    </FormDialog>
  )
}

function modelFields(kind: Model['kind']): ReadonlyArray<FieldEntry<'createModel'>> {
  return [
    'name',
    ['kind', { choices: choicesIn(modelKindLabels) }],
    (kind === 'chat' || kind === 'embedding') && 'contextTokens',
    { group: 'Prices', fields: priceFields(kind) },
  ]
}

function placeOf({ place, kind }: Values): string {
  return engines[kind as Model['kind']] === undefined ? 'server' : place
}

function hasFile(values: Values): boolean {
  return placeOf(values) === 'engine' && values.kind === 'chat'
}

function offerOf(values: Values): Offer {
  const kind = values.kind as Model['kind']
  const model = {
    ...(collect('createModel', flatten(modelFields(kind)), values) as NewModel),
    engine: placeOf(values) === 'engine' ? engines[kind] : undefined,
    files: hasFile(values) ? [fileOf(values)] : undefined,
  }
  const deployment = collect('createDeployment', flatten(newDeploymentFields(kind)), values) as NewDeployment
  return { model, deployment: placeOf(values) === 'server' ? { ...deployment, model: model.name } : undefined }
}

function fileOf({ name, source, sha256 }: Values): NonNullable<NewModel['files']>[number] {
  const file = `${name
    .trim()
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 190)}.gguf`
  return { source: source.trim(), file, bytes: null, sha256: optionalText(sha256)?.toLowerCase() ?? null }
}

/** Assigns the errors of both requests to their fields. */
const offerSchema = {
  safeParse: ({ model, deployment }: Offer, params: z.core.ParseContext<z.core.$ZodIssue>) => {
    const issues = [
      ...(api.createModel.body?.safeParse(model, params).error?.issues ?? []),
      ...(deployment === undefined
        ? []
        : (api.createDeployment.body?.safeParse(deployment, params).error?.issues ?? [])),
    ].filter(({ path }) => path[0] !== 'model')
    return { error: { issues } }
  },
}

async function offerModel({ model, deployment }: Offer): Promise<void> {
  // A new key for each attempt: after a failed deployment the earlier model was deleted.
  await call('createModel', { body: model, idempotencyKey: makeOnceKey() })
  try {
    if (deployment !== undefined) await call('createDeployment', { body: deployment, idempotencyKey: makeOnceKey() })
  } catch (error) {
    if (error instanceof ApiError) await call('deleteModel', { query: { name: model.name } })
    throw error
  } finally {
    await refresh(['listOperatedModels', 'listModels'])
  }
}
