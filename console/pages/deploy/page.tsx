/** A new deployment, with its cost per hour before the order. */
import { getRouteApi } from '@tanstack/react-router'
import { modelKindLabels } from '../../../src/view/model.ts'
import { missingScope, useMay, useMe } from '../../api/me.ts'
import { FormProblems } from '../../form/dialog.tsx'
import { optionalText } from '../../form/read.ts'
import { useCallForm, type Form } from '../../form/use-form.ts'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { toast } from '../../ui/toast.tsx'
import { ScalingFields, scalingOf, scalingPaths } from '../deployment/scaling-fields.tsx'
import { EngineFields, GpuFields, specOf, specPaths, weightsFault } from '../deployment/spec-fields.tsx'
import { Quote } from './quote.tsx'
import { emptyDeploy, type DeployValues } from './values.ts'

const kinds = Object.entries(modelKindLabels).map(([value, label]) => ({ value, label }))

const route = getRouteApi('/shell/deployments/new')

export function DeployPage() {
  const navigate = route.useNavigate()
  const form = useCallForm('createManagedDeployment', {
    refreshes: ['listManagedDeployments'],
    initial: emptyDeploy,
    body: bodyOf,
    paths: { ...specPaths, ...scalingPaths, budget: 'hourlyBudgetUsd' },
    check: (values) => ({
      name: values.name.trim() === '' ? 'Enter a name' : undefined,
      weights: weightsFault(values),
    }),
    onDone: (made) => {
      toast(`Created ${made.model}`)
      void navigate({ to: '/deployments/$id', params: { id: made.id } })
    },
  })
  return (
    <Page intro="Serve a model on rented GPUs. Replicas are billed by GPU time, not per token.">
      <form onSubmit={form.submit} noValidate className="grid items-start gap-5 lg:grid-cols-[1fr_20rem]">
        <div className="flex min-w-0 flex-col gap-5">
          <ModelCard form={form} />
          <Card title="GPUs of each replica">
            <div className="grid gap-3 sm:grid-cols-2">
              <GpuFields form={form} />
            </div>
          </Card>
          <Card title="Scaling">
            <div className="grid gap-3 sm:grid-cols-2">
              <ScalingFields form={form} />
            </div>
          </Card>
        </div>
        <Summary form={form} />
      </form>
    </Page>
  )
}

function bodyOf(values: DeployValues) {
  const { name, kind, forEveryone, budget } = values
  return {
    ...(forEveryone ? { model: name.trim(), forEveryone } : { name: name.trim() }),
    kind: kind as keyof typeof modelKindLabels,
    ...specOf(values),
    ...scalingOf(values),
    hourlyBudgetUsd: optionalText(budget),
  }
}

function ModelCard({ form }: { form: Form<DeployValues> }) {
  const isOperator = useMay('operator')
  const { account } = useMe()
  const { forEveryone } = form.values
  const name = form.values.name.trim() || 'NAME'
  return (
    <Card title="Model">
      <div className="grid gap-3 sm:grid-cols-2">
        <TextField
          label="Name"
          hint={`Requests use ${forEveryone ? name : `${account.id}/${name}`}.`}
          {...form.text('name')}
          error={form.error('name') ?? form.errorAt('model')}
        />
        <SelectField label="Kind" choices={kinds} {...form.text('kind')} />
        <EngineFields form={form} />
      </div>
      {isOperator && (
        <div className="mt-4">
          <CheckField
            label="Serve everyone"
            hint="The house pays for the GPUs, and requests are sold at the prices of the model."
            {...form.check('forEveryone')}
          />
        </div>
      )}
    </Card>
  )
}

function Summary({ form }: { form: Form<DeployValues> }) {
  const may = useMay('compute:write')
  return (
    <Card title="Cost" className="lg:sticky lg:top-18">
      <div className="flex flex-col gap-4">
        <Quote values={form.values} />
        <TextField
          label="Hourly budget (USD)"
          inputMode="decimal"
          placeholder={form.values.forEveryone ? 'Required' : 'None'}
          hint="Most that all replicas together may cost per hour."
          {...form.text('budget')}
        />
        <FormProblems form={form} />
        <Button
          type="submit"
          look="primary"
          busy={form.isPending}
          disabledReason={may ? undefined : missingScope('compute:write')}
        >
          Deploy
        </Button>
      </div>
    </Card>
  )
}
