/** A new deployment, with its cost per hour before the order. */
import { getRouteApi } from '@tanstack/react-router'
import { modelKindLabels } from '../../../src/view/model.ts'
import { missingScope, useMay, useMe } from '../../api/me.ts'
import { FormProblems } from '../../form/dialog.tsx'
import type { FieldEntry } from '../../form/entry.ts'
import { useFieldForm } from '../../form/field-form.ts'
import type { FieldValues } from '../../form/field.ts'
import { Fields } from '../../form/fields.tsx'
import { choicesIn } from '../../list/filter.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Page } from '../../ui/page.tsx'
import { toast } from '../../ui/toast.tsx'
import { engineFields, gpuFields, scalingFields, weightsFault } from '../deployment/fields.ts'
import { Quote } from './quote.tsx'

type Values = FieldValues<'createManagedDeployment'>
type Entry = FieldEntry<'createManagedDeployment'>

const route = getRouteApi('/shell/deployments/new')

export function DeployPage() {
  const navigate = route.useNavigate()
  const mayOrder = useMay('compute:write')
  const modelFields = useModelFields()
  const form = useFieldForm('createManagedDeployment', {
    refreshes: ['listManagedDeployments'],
    initial: { kind: 'chat', 'recipe.name': 'vllm' },
    fields: (values) => [...modelFields(values), ...gpuFields, ...scalingFields, 'hourlyBudgetUsd'],
    check: ({ name, model, forEveryone, ...values }) => ({
      name: !forEveryone && name.trim() === '' ? 'Enter a name' : undefined,
      model: forEveryone && model.trim() === '' ? 'Enter a name' : undefined,
      ...weightsFault(values),
    }),
    onDone: ({ id, model }) => {
      toast(`Created ${model}`)
      void navigate({ to: '/deployments/$id', params: { id } })
    },
  })
  const budgetPlaceholder = form.values.forEveryone ? 'Required' : 'None'
  return (
    <Page intro="Serve a model on rented GPUs. Replicas are billed by GPU time, not per token.">
      <form onSubmit={form.submit} noValidate className="grid items-start gap-5 lg:grid-cols-[1fr_20rem]">
        <div className="flex min-w-0 flex-col gap-5">
          <Card title="Model">
            <Fields form={form} entries={modelFields(form.values)} wide />
          </Card>
          <Card title="GPUs of each replica">
            <Fields form={form} entries={gpuFields} wide />
          </Card>
          <Card title="Scaling">
            <Fields form={form} entries={scalingFields} wide />
          </Card>
        </div>
        <Card title="Cost" className="lg:sticky lg:top-18">
          <div className="flex flex-col gap-4">
            <Quote values={form.values} />
            <Fields form={form} entries={[['hourlyBudgetUsd', { placeholder: budgetPlaceholder }]]} />
            <FormProblems form={form} />
            <Button
              type="submit"
              look="primary"
              busy={form.isPending}
              disabledReason={mayOrder ? undefined : missingScope('compute:write')}
            >
              Deploy
            </Button>
          </div>
        </Card>
      </form>
    </Page>
  )
}

/** A model for everyone needs a name; other models are named after their account. */
function useModelFields(): (values: Values) => readonly Entry[] {
  const isOperator = useMay('operator')
  const { account } = useMe()
  return ({ name, model, forEveryone, ...values }) => [
    forEveryone
      ? ['model', { label: 'Name', hint: `Requests use ${model.trim() || 'NAME'}.` }]
      : ['name', { hint: `Requests use ${account.id}/${name.trim() || 'NAME'}.` }],
    ['kind', { choices: choicesIn(modelKindLabels), hint: null }],
    ...engineFields<'createManagedDeployment'>(values['recipe.name']),
    isOperator && 'forEveryone',
  ]
}
