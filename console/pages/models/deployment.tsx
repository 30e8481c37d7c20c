/** Adds or changes a deployment. Its API key is never returned. */
import { NO_CONCURRENCY_LIMIT } from '../../../src/base/limits.ts'
import { deploymentProtocol, protocolKinds, type DeploymentProtocol } from '../../../src/contract/model.ts'
import type { Deployment, Model } from '../../../src/view/model.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalNumber, optionalText } from '../../form/read.ts'
import { useCallForm, type Form } from '../../form/use-form.ts'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

export const emptyDeployment = {
  url: '',
  /** Empty for the first protocol of this kind of model. */
  protocol: '',
  upstreamModel: '',
  apiKey: '',
  /** Removes the stored key. */
  dropsKey: false,
  weight: '',
  concurrency: '',
}
type DeploymentValues = typeof emptyDeployment

interface DeploymentDialogProps {
  readonly model: Model
  /** undefined: a new one. */
  readonly deployment?: Deployment
  readonly onClose: () => void
}

export function DeploymentDialog({ model, deployment, onClose }: DeploymentDialogProps) {
  const done = (said: string) => () => {
    toast(said)
    onClose()
  }
  const create = useCallForm('createDeployment', {
    refreshes: ['listOperatedModels'],
    initial: emptyDeployment,
    body: (values) => ({ model: model.name, ...deploymentBody(values) }),
    onDone: done(`Added a deployment to ${model.name}.`),
  })
  const change = useCallForm('changeDeployment', {
    input: { params: { id: deployment?.id ?? '' } },
    refreshes: ['listOperatedModels'],
    initial: deployment === undefined ? emptyDeployment : valuesOf(deployment),
    body: (values) => deploymentChange(values, deployment),
    onDone: done('Changed the deployment.'),
  })
  const isNew = deployment === undefined
  const form = isNew ? create : change
  return (
    <FormDialog
      title={isNew ? `Add a deployment to ${model.name}` : 'Change deployment'}
      form={form}
      action={isNew ? 'Add deployment' : 'Save changes'}
      onClose={onClose}
    >
      <UpstreamFields kind={model.kind} form={form} hasKey={deployment?.hasApiKey ?? false} isFixed={!isNew} />
    </FormDialog>
  )
}

interface UpstreamFieldsProps {
  readonly kind: Model['kind']
  readonly form: Pick<Form<DeploymentValues>, 'text' | 'check' | 'values'>
  readonly hasKey: boolean
  /** The protocol of an existing deployment cannot change. */
  readonly isFixed?: boolean
}

export function UpstreamFields({ kind, form, hasKey, isFixed = false }: UpstreamFieldsProps) {
  const protocols = deploymentProtocol.options.filter((one) => (protocolKinds[one] as readonly string[]).includes(kind))
  const protocol = form.text('protocol')
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <TextField
        className="sm:col-span-2"
        label="URL"
        hint="With or without /v1 at the end."
        placeholder="http://10.0.0.17:8000"
        {...form.text('url')}
      />
      <TextField label="Model name on the server" placeholder="The same name" {...form.text('upstreamModel')} />
      <SelectField
        label="Protocol"
        disabled={isFixed || protocols.length === 1}
        choices={protocols.map((value) => ({ value, label: value }))}
        {...protocol}
        value={protocol.value || (protocols[0] ?? '')}
      />
      <TextField
        label="API key"
        type="password"
        autoComplete="new-password"
        disabled={form.values.dropsKey}
        placeholder={hasKey ? 'Unchanged' : 'None'}
        hint="Sent as a bearer token. Not shown again."
        {...form.text('apiKey')}
      />
      {hasKey && <CheckField label="Remove the API key" {...form.check('dropsKey')} />}
      <TextField
        label="Weight"
        inputMode="numeric"
        placeholder="1"
        hint="Its share of the requests. 0 stops new requests."
        {...form.text('weight')}
      />
      <TextField
        label="Most concurrent requests"
        inputMode="numeric"
        placeholder="Automatic"
        {...form.text('concurrency')}
      />
    </div>
  )
}

function valuesOf({ url, protocol, upstreamModel, weight, concurrency }: Deployment): DeploymentValues {
  const hasMaximum = concurrency < NO_CONCURRENCY_LIMIT
  const numbers = { weight: String(weight), concurrency: hasMaximum ? String(concurrency) : '' }
  return { ...emptyDeployment, url, protocol, upstreamModel, ...numbers }
}

/** Empty values are left to the server. */
export function deploymentBody(values: DeploymentValues) {
  return {
    url: values.url.trim(),
    protocol: (optionalText(values.protocol) ?? undefined) as DeploymentProtocol | undefined,
    upstreamModel: optionalText(values.upstreamModel),
    apiKey: values.apiKey === '' ? undefined : values.apiKey,
    weight: optionalNumber(values.weight),
    concurrency: optionalNumber(values.concurrency),
  }
}

function deploymentChange(values: DeploymentValues, before: Deployment | undefined) {
  const { protocol: _, ...body } = deploymentBody(values)
  const changed = Object.entries(body).filter(([name, value]) => value !== before?.[name as keyof Deployment])
  return { ...Object.fromEntries(changed), ...(values.dropsKey ? { apiKey: null } : {}) }
}
