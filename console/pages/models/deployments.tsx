/** The deployments of a model: health, load and actions. */
import { deploymentBusy, deploymentState, type Deployment, type Model } from '../../../src/view/model.ts'
import { CallButton, ConfirmCall } from '../../form/dialog.tsx'
import { actionsColumn, badgeColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Button } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Table } from '../../ui/table.tsx'
import { DeploymentDialog } from './deployment.tsx'

export function Deployments({ model }: { model: Model }) {
  const dialog = useDialog()
  if (model.deployments.length === 0) return null
  const change = (deployment: Deployment): void =>
    dialog.open((close) => <DeploymentDialog model={model} deployment={deployment} onClose={close} />)
  const remove = (deployment: Deployment): void =>
    dialog.open((close) => <DeleteDeployment deployment={deployment} onClose={close} />)
  const actions = (deployment: Deployment) => (
    <>
      <DrainButton deployment={deployment} />
      <Button look="quiet" aria-label={`Change ${deployment.url}`} onClick={() => change(deployment)}>
        Change
      </Button>
      <Button look="quiet" aria-label={`Delete ${deployment.url}`} onClick={() => remove(deployment)}>
        Delete
      </Button>
    </>
  )
  return (
    <>
      <Table
        label={`Deployments of ${model.name}`}
        columns={[...columns, actionsColumn(actions)]}
        rows={model.deployments}
        rowKey="id"
        empty={null}
      />
      {dialog.shown}
    </>
  )
}

const columns: Columns<Deployment> = [
  textColumn('Deployment', ({ url, upstreamModel, protocol, hasApiKey }) => (
    <div className="min-w-40">
      <div className="break-all">{url}</div>
      <div className="text-muted">
        {upstreamModel}, {protocol}
        {hasApiKey && ', with an API key'}
      </div>
    </div>
  )),
  badgeColumn('Health', deploymentState),
  textColumn('In progress', deploymentBusy, { align: 'right' }),
  numberColumn('Queued', ({ health }) => health?.queued ?? null),
  numberColumn('Failures', ({ health }) => health?.faults ?? null),
  numberColumn('Weight', 'weight'),
]

function DrainButton({ deployment: { id, url, drained } }: { deployment: Deployment }) {
  const verb = drained ? 'Resume' : 'Drain'
  return (
    <CallButton
      look="quiet"
      operation="changeDeployment"
      input={{ params: { id }, body: { drained: !drained } }}
      refreshes={['listOperatedModels']}
      done={drained ? 'Resumed the deployment.' : 'Draining the deployment.'}
      aria-label={`${verb} ${url}`}
      title={drained ? 'Send it requests again' : 'Send it no new requests; current ones finish'}
    >
      {verb}
    </CallButton>
  )
}

function DeleteDeployment({ deployment, onClose }: { deployment: Deployment; onClose: () => void }) {
  return (
    <ConfirmCall
      title="Delete this deployment?"
      action="Delete"
      operation="deleteDeployment"
      input={{ params: { id: deployment.id } }}
      refreshes={['listOperatedModels']}
      done="Deleted the deployment."
      onClose={onClose}
    >
      {deployment.url} gets no more requests for {deployment.model}. Requests in progress are finished.
    </ConfirmCall>
  )
}
