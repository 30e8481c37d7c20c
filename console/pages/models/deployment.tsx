/** A server that runs a model: named, or changed. Its key goes in and never comes out. */
import { useState, type FormEvent } from 'react'
import type { CallInput } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { deploymentProtocol, protocolKinds, type DeploymentProtocol } from '../../../src/contract/model.ts'
import { useAction } from '../../api/query.ts'
import { useCreate } from '../../api/create.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { readWhole } from './change.tsx'
import type { Deployment, Model } from './state.ts'

const fields = ['url', 'protocol', 'upstreamModel', 'apiKey', 'weight', 'concurrency']

export interface DeploymentValues {
  readonly url: string
  readonly protocol: DeploymentProtocol | undefined
  readonly upstreamModel: string
  readonly apiKey: string
  /** Forget the key that is there. */
  readonly dropsKey: boolean
  readonly weight: string
  readonly concurrency: string
}

export const emptyDeployment: DeploymentValues = {
  url: '',
  protocol: undefined,
  upstreamModel: '',
  apiKey: '',
  dropsKey: false,
  weight: '',
  concurrency: '',
}

interface DeploymentDialogProps {
  readonly model: Model
  /** undefined: a new one. */
  readonly deployment?: Deployment
  readonly onClose: () => void
}

export function DeploymentDialog({ model, deployment, onClose }: DeploymentDialogProps) {
  const [values, setValues] = useState(() => (deployment === undefined ? emptyDeployment : valuesOf(deployment)))
  const create = useCreate('createDeployment', ['listOperatedModels'])
  const change = useAction('changeDeployment', ['listOperatedModels'])
  const action = deployment === undefined ? create : change
  const done = (): void => {
    toast(deployment === undefined ? `${model.name} has another server.` : 'The server is changed.')
    onClose()
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    if (deployment === undefined) {
      create.mutate({ body: { model: model.name, ...deploymentBody(values) } }, { onSuccess: done })
    } else {
      const body = deploymentChange(values, deployment)
      change.mutate({ params: { id: deployment.id }, body }, { onSuccess: done })
    }
  }
  const beside = errorBesideFields(action.error, fields)
  return (
    <Dialog title={deployment === undefined ? `Add a server to ${model.name}` : 'Change the server'} onClose={onClose}>
      <form onSubmit={submit} noValidate className="flex flex-col gap-4">
        <UpstreamFields
          kind={model.kind}
          values={values}
          onChange={setValues}
          error={action.error}
          hasKey={deployment?.hasApiKey ?? false}
          isFixed={deployment !== undefined}
        />
        {beside !== null && <ErrorNotice error={beside} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={action.isPending}>{deployment === undefined ? 'Add it' : 'Change it'}</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

interface UpstreamFieldsProps {
  readonly kind: Model['kind']
  readonly values: DeploymentValues
  readonly onChange: (values: DeploymentValues) => void
  readonly error: ClientError | null
  readonly hasKey: boolean
  /** It is there already: how it is spoken to does not change. */
  readonly isFixed?: boolean
}

export function UpstreamFields({ kind, values, onChange, error, hasKey, isFixed = false }: UpstreamFieldsProps) {
  const protocols = deploymentProtocol.options.filter((one) => (protocolKinds[one] as readonly string[]).includes(kind))
  const of = (name: 'url' | 'upstreamModel' | 'apiKey' | 'weight' | 'concurrency') => ({
    value: values[name],
    error: fieldError(error, name),
    onChange: (event: { target: { value: string } }) => onChange({ ...values, [name]: event.target.value }),
  })
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <TextField
        className="sm:col-span-2"
        label="URL"
        hint="With or without /v1 at its end"
        placeholder="http://10.0.0.17:8000"
        {...of('url')}
      />
      <TextField label="What the model is called there" placeholder="the same" {...of('upstreamModel')} />
      <SelectField
        label="Protocol"
        disabled={isFixed || protocols.length === 1}
        choices={protocols.map((value) => ({ value, label: value }))}
        value={values.protocol ?? protocols[0] ?? ''}
        onChange={(event) => onChange({ ...values, protocol: protocols.find((one) => one === event.target.value) })}
        error={fieldError(error, 'protocol')}
      />
      <TextField
        label="API key"
        type="password"
        autoComplete="new-password"
        disabled={values.dropsKey}
        placeholder={hasKey ? 'kept as it is' : 'none'}
        hint="Sent as a bearer token; never shown again"
        {...of('apiKey')}
      />
      {hasKey && (
        <CheckField
          label="Send no key any more"
          checked={values.dropsKey}
          onChange={(event) => onChange({ ...values, dropsKey: event.target.checked })}
        />
      )}
      <TextField
        label="Weight"
        inputMode="numeric"
        placeholder="1"
        hint="Its share beside the others; 0 takes nothing new"
        {...of('weight')}
      />
      <TextField label="Requests at a time" inputMode="numeric" placeholder="as usual" {...of('concurrency')} />
    </div>
  )
}

function valuesOf({ url, protocol, upstreamModel, weight, concurrency }: Deployment): DeploymentValues {
  const numbers = { weight: String(weight), concurrency: String(concurrency) }
  return { ...emptyDeployment, url, protocol, upstreamModel, ...numbers }
}

/** What is empty is left to the server. */
export function deploymentBody(values: DeploymentValues) {
  const { url, protocol, upstreamModel, apiKey, weight, concurrency } = values
  return {
    url: url.trim(),
    ...(protocol === undefined ? {} : { protocol }),
    ...(upstreamModel.trim() === '' ? {} : { upstreamModel: upstreamModel.trim() }),
    ...(apiKey === '' ? {} : { apiKey }),
    ...(weight.trim() === '' ? {} : { weight: readWeight(weight) }),
    ...(concurrency.trim() === '' ? {} : { concurrency: readWhole(concurrency) }),
  }
}

function deploymentChange(
  values: DeploymentValues,
  before: Deployment,
): NonNullable<CallInput<'changeDeployment'>['body']> {
  const { protocol: _, ...body } = deploymentBody(values)
  const changed = Object.entries(body).filter(([name, value]) => value !== before[name as keyof Deployment])
  return { ...Object.fromEntries(changed), ...(values.dropsKey ? { apiKey: null } : {}) }
}

/** 0 means something here, so that a text that is no number becomes one that is refused. */
function readWeight(text: string): number {
  return /^\d{1,6}$/.test(text.trim()) ? Number.parseInt(text, 10) : -1
}
