/** A new deployment in three steps: a model, its GPUs, its scale. The price is always beside them. */
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { Fields } from '../../form/fields.tsx'
import { Answer } from '../../ui/answer.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { TextField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'
import { GpuStep } from './gpu.tsx'
import { ModelChoice, type CatalogModel } from './model.tsx'
import { useGpuOptions, useOrder } from './order.ts'
import { ScaleStep } from './scale.tsx'
import { isOwn, sourceFields } from './source.ts'
import { Summary } from './summary.tsx'

const route = getRouteApi('/shell/deployments/new')

export function DeployPage() {
  const { model: modelId = '' } = route.useSearch()
  const catalog = useCall('listCatalog', { query: {} })
  // The steps wait for their first GPUs, so that nothing moves.
  const first = useGpuOptions(catalog.data?.models.some(({ id }) => id === modelId) === true ? modelId : '')
  return (
    <Page
      intro="Serve a model on rented GPUs. You pay for GPU time, not per token."
      actions={<ButtonLink to="/deployments/catalog">Model catalog</ButtonLink>}
    >
      <Answer of={catalog} skeleton={<Skeleton rows={12} />}>
        {({ models }) => (first.isPending ? <Skeleton rows={12} /> : <Steps models={models} />)}
      </Answer>
    </Page>
  )
}

function Steps({ models }: { models: readonly CatalogModel[] }) {
  const { model: modelId } = route.useSearch()
  const navigate = route.useNavigate()
  const [source, setSource] = useState(models.find(({ id }) => id === modelId)?.id ?? '')
  const model = models.find(({ id }) => id === source)
  const order = useOrder(source, model, (created) => {
    toast(`Created ${created.model}`)
    void navigate({ to: '/deployments/$id', params: { id: created.id } })
  })
  const { form } = order
  const mayOrder = useMay('compute:write')
  return (
    <form
      onSubmit={form.submit}
      noValidate
      className="grid items-start gap-5 max-lg:pb-20 lg:grid-cols-[minmax(0,1fr)_20rem]"
    >
      <div className="flex min-w-0 flex-col gap-5">
        <Card title="1. Model">
          <div className="flex flex-col gap-4">
            <ModelChoice
              models={models}
              source={source}
              error={form.error('catalogModel')}
              onChoose={(next, query) => {
                setSource(next)
                order.choose(next, query)
              }}
            />
            {isOwn(source) && <Fields form={form} entries={sourceFields(source, form.values)} wide />}
            {model?.gated === true && (
              <TextField
                label="Hub token"
                type="password"
                autoComplete="off"
                hint="The files of this model are only for people who accepted its license on its page."
                value={order.token}
                onChange={(event) => order.setToken(event.target.value)}
              />
            )}
          </div>
        </Card>
        <Card title="2. GPU">
          <GpuStep source={source} minGb={model?.minGb} order={order} />
        </Card>
        <Card title="3. Scale">
          <ScaleStep source={source} order={order} />
        </Card>
      </div>
      <Summary order={order} disabledReason={mayOrder ? order.whyNot : missingScope('compute:write')} />
    </form>
  )
}
