/** Models on rented GPUs: those of the account, and for operators also those of the house. */
import type { Reply } from '../../../src/client/client.ts'
import { deploymentStatusLabels, recipeLabels, specGpus } from '../../../src/view/deployment.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { badgeColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Button, ButtonLink, TextLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'

type Deployment = Reply<'listManagedDeployments'>['deployments'][number]

/** Requests raise no events. */
const EVERY_MS = 5_000

export function DeploymentsPage() {
  return (
    <Page intro="Models on rented GPUs. Replicas are added and removed with the load." actions={<DeployButton />}>
      <ListTable
        call="listManagedDeployments"
        everyMs={EVERY_MS}
        label="Deployments"
        rows={({ deployments }) => deployments}
        rowKey="id"
        columns={columns}
        empty={
          <Empty title="No deployments" action={<DeployButton />}>
            Serve a model on GPUs of the marketplace. You pay for GPU time, not per token.
          </Empty>
        }
      />
    </Page>
  )
}

function DeployButton() {
  const may = useMay('compute:write')
  if (!may) return <Button disabledReason={missingScope('compute:write')}>Deploy a model</Button>
  return (
    <ButtonLink look="primary" to="/deployments/new">
      Deploy a model
    </ButtonLink>
  )
}

const columns: Columns<Deployment> = [
  textColumn('Model', ({ id, model }) => (
    <TextLink to="/deployments/$id" params={{ id }}>
      <span className="break-all">{model}</span>
    </TextLink>
  )),
  badgeColumn('Status', ({ status }) => deploymentStatusLabels[status]),
  textColumn('Replicas', ({ readyReplicas, desiredReplicas }) => `${readyReplicas} of ${desiredReplicas}`, {
    align: 'right',
    className: 'whitespace-nowrap',
  }),
  numberColumn('Requests', 'outstandingRequests'),
  textColumn('Cost', ({ costPerHourUsd }) => hourlyPrice(costPerHourUsd), { align: 'right' }),
  textColumn('Runs', ({ spec }) => `${recipeLabels[spec.recipe.name]}, ${specGpus(spec)}`, { wideOnly: true }),
  textColumn('For', ({ visibility }) => (visibility === 'everyone' ? 'Everyone' : 'This account'), { wideOnly: true }),
]
