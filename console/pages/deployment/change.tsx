/** Changes replicas, scaling and the hourly budget. Changes apply at once. */
import type { ManagedDeployment } from '../../../src/view/deployment.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { scalingFields } from './fields.ts'

export function ChangeDialog({ deployment, onClose }: { deployment: ManagedDeployment; onClose: () => void }) {
  return (
    <FieldDialog
      operation="changeManagedDeployment"
      input={{ params: { id: deployment.id } }}
      refreshes={['getManagedDeployment', 'listManagedDeployments', 'listEvents']}
      title="Change scaling"
      action="Save changes"
      wide
      before={deployment.settings}
      fields={[...scalingFields, 'hourlyBudgetUsd']}
      done="Saved"
      onClose={onClose}
    />
  )
}
