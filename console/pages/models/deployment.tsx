/** Adds or changes a deployment. Its API key is never returned. */
import { useState } from 'react'
import { NO_CONCURRENCY_LIMIT } from '../../../src/base/limits.ts'
import { deploymentProtocol, protocolKinds, type DeploymentProtocol } from '../../../src/contract/model.ts'
import type { Deployment, Model } from '../../../src/view/model.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import type { FieldEntry } from '../../form/entry.ts'
import { CheckField } from '../../ui/field.tsx'

const concurrencyField = ['concurrency', { placeholder: 'Automatic' }] as const

interface DeploymentDialogProps {
  readonly model: Model
  /** undefined: a new deployment is added. */
  readonly deployment?: Deployment
  readonly onClose: () => void
}

export function DeploymentDialog({ model, deployment, onClose }: DeploymentDialogProps) {
  const dialog = { refreshes: ['listOperatedModels'], wide: true, onClose } as const
  const [dropsKey, setDropsKey] = useState(false)
  if (deployment === undefined) {
    return (
      <FieldDialog
        {...dialog}
        operation="createDeployment"
        title={`Add a deployment to ${model.name}`}
        action="Add deployment"
        fields={newDeploymentFields(model.kind)}
        body={(body) => ({ ...body, model: model.name })}
        done={`Added a deployment to ${model.name}.`}
      />
    )
  }
  const hasMaximum = deployment.concurrency < NO_CONCURRENCY_LIMIT
  const dropField = (
    <CheckField label="Remove the API key" checked={dropsKey} onChange={(event) => setDropsKey(event.target.checked)} />
  )
  return (
    <FieldDialog
      {...dialog}
      operation="changeDeployment"
      input={{ params: { id: deployment.id } }}
      title="Change deployment"
      action="Save changes"
      before={{ ...deployment, concurrency: hasMaximum ? deployment.concurrency : undefined }}
      fields={[
        'url',
        'upstreamModel',
        [
          'apiKey',
          {
            as: 'password',
            disabled: dropsKey,
            placeholder: deployment.hasApiKey ? 'Unchanged' : 'None',
            read: String,
          },
        ],
        deployment.hasApiKey && { show: dropField },
        'weight',
        concurrencyField,
      ]}
      body={(body) => (dropsKey ? { ...body, apiKey: null } : body)}
      done="Changed the deployment."
    />
  )
}

export function newDeploymentFields(kind: Model['kind']): ReadonlyArray<FieldEntry<'createDeployment'>> {
  const protocols = protocolsOf(kind)
  return [
    'url',
    'upstreamModel',
    protocols.length > 1 && ['protocol', { choices: protocols.map((value) => ({ value, label: value })) }],
    ['apiKey', { as: 'password', placeholder: 'None', read: String }],
    'weight',
    concurrencyField,
  ]
}

function protocolsOf(kind: Model['kind']): readonly DeploymentProtocol[] {
  return deploymentProtocol.options.filter((one) => (protocolKinds[one] as readonly string[]).includes(kind))
}
