/** Replicas, scaling and the hourly budget. Applies at once. */
import type { ManagedDeployment } from '../../../src/view/deployment.ts'
import { editableUsd } from '../../../src/view/money.ts'
import { CallDialog } from '../../form/dialog.tsx'
import { optionalText } from '../../form/read.ts'
import { TextField } from '../../ui/field.tsx'
import { ScalingFields, scalingOf, scalingPaths } from './scaling-fields.tsx'

export function ChangeDialog({ deployment, onClose }: { deployment: ManagedDeployment; onClose: () => void }) {
  const { id, settings } = deployment
  return (
    <CallDialog
      operation="changeManagedDeployment"
      input={{ params: { id } }}
      refreshes={['getManagedDeployment', 'listManagedDeployments', 'listEvents']}
      title="Change scaling"
      action="Save changes"
      wide
      initial={{
        min: String(settings.replicas.min),
        max: String(settings.replicas.max),
        target: String(settings.scaling.targetOutstanding),
        upDelay: String(settings.scaling.upDelaySeconds),
        downDelay: String(settings.scaling.downDelaySeconds),
        idle: String(settings.scaling.idleSeconds),
        budget: editableUsd(settings.hourlyBudgetUsd),
      }}
      body={(values) => ({ ...scalingOf(values), hourlyBudgetUsd: optionalText(values.budget) ?? null })}
      paths={{ ...scalingPaths, budget: 'hourlyBudgetUsd' }}
      disabledReason="unchanged"
      done="Saved"
      onClose={onClose}
    >
      {(form) => (
        <>
          <div className="grid gap-3 sm:grid-cols-2">
            <ScalingFields form={form} />
            <TextField
              label="Hourly budget (USD)"
              inputMode="decimal"
              hint="Most that all replicas together may cost per hour. Leave empty for none."
              {...form.text('budget')}
            />
          </div>
          <p className="text-sm text-muted">A maximum of 0 pauses the deployment.</p>
        </>
      )}
    </CallDialog>
  )
}
