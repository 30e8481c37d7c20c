/** The deployments of a model: health, load and actions. */
import { number } from '../../../src/view/number.ts'
import { deploymentState, type Deployment, type Model } from '../../../src/view/model.ts'
import { useState } from 'react'
import { useAction } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import { DeploymentDialog } from './deployment.tsx'

interface Open {
  readonly kind: 'change' | 'delete'
  readonly deployment: Deployment
}

export function Deployments({ model }: { model: Model }) {
  const [open, setOpen] = useState<Open | undefined>()
  const close = (): void => setOpen(undefined)
  if (model.deployments.length === 0) return null
  const columns = columnsOf(setOpen)
  return (
    <>
      <Table
        label={`Deployments of ${model.name}`}
        columns={columns}
        rows={model.deployments}
        rowKey={(deployment) => deployment.id}
        empty={null}
      />
      {open?.kind === 'change' && <DeploymentDialog model={model} deployment={open.deployment} onClose={close} />}
      {open?.kind === 'delete' && <DeleteDeployment deployment={open.deployment} onClose={close} />}
    </>
  )
}

function columnsOf(setOpen: (open: Open) => void): ReadonlyArray<Column<Deployment>> {
  return [
    ...factColumns,
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (deployment) => (
        <span className="flex justify-end">
          <DrainButton deployment={deployment} />
          <Button
            look="quiet"
            aria-label={`Change ${deployment.url}`}
            onClick={() => setOpen({ kind: 'change', deployment })}
          >
            Change
          </Button>
          <Button
            look="quiet"
            aria-label={`Delete ${deployment.url}`}
            onClick={() => setOpen({ kind: 'delete', deployment })}
          >
            Delete
          </Button>
        </span>
      ),
    },
  ]
}

const factColumns: ReadonlyArray<Column<Deployment>> = [
  {
    name: 'url',
    header: 'Deployment',
    cell: (deployment) => (
      <div className="min-w-40">
        <div className="break-all">{deployment.url}</div>
        <div className="text-muted">
          {deployment.upstreamModel}, {deployment.protocol}
          {deployment.hasApiKey && ', with an API key'}
        </div>
      </div>
    ),
  },
  { name: 'health', header: 'Health', cell: (deployment) => <Health deployment={deployment} /> },
  {
    name: 'busy',
    header: 'In progress',
    align: 'right',
    cell: ({ health, concurrency }) => (
      <span title={`Limit: ${number(concurrency)}`}>{health === null ? '—' : number(health.inFlight)}</span>
    ),
  },
  {
    name: 'queued',
    header: 'Queued',
    align: 'right',
    cell: ({ health }) => (health === null || health.queued === null ? '—' : number(health.queued)),
  },
  {
    name: 'faults',
    header: 'Failures',
    align: 'right',
    cell: ({ health }) => (health === null ? '—' : number(health.faults)),
  },
  { name: 'weight', header: 'Weight', align: 'right', cell: (deployment) => number(deployment.weight) },
]

function Health({ deployment }: { deployment: Deployment }) {
  const { label, tone, hint } = deploymentState(deployment)
  return (
    <span title={hint}>
      <Badge tone={tone}>{label}</Badge>
    </span>
  )
}

function DrainButton({ deployment }: { deployment: Deployment }) {
  const action = useAction('changeDeployment', ['listOperatedModels'])
  const { drained } = deployment
  const verb = drained ? 'Resume' : 'Drain'
  return (
    <Button
      look="quiet"
      busy={action.isPending}
      aria-label={`${verb} ${deployment.url}`}
      title={drained ? 'Send it requests again' : 'Send it no new requests; current ones finish'}
      onClick={() =>
        action.mutate(
          { params: { id: deployment.id }, body: { drained: !drained } },
          {
            onSuccess: () => toast(drained ? 'Resumed the deployment.' : 'Draining the deployment.'),
            onError: (error) => toast(error.message, 'bad'),
          },
        )
      }
    >
      {verb}
    </Button>
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
