/** Rolls out a new version. New replicas answer before old ones drain. */
import type { ManagedDeployment } from '../../../src/view/deployment.ts'
import { CallDialog } from '../../form/dialog.tsx'
import { CheckField } from '../../ui/field.tsx'
import { EngineFields, GpuFields, specOf, specPaths, specValuesOf } from './spec-fields.tsx'

export function RolloutDialog({ deployment, onClose }: { deployment: ManagedDeployment; onClose: () => void }) {
  const { id, spec, version } = deployment
  return (
    <CallDialog
      operation="rolloutManagedDeployment"
      input={{ params: { id } }}
      refreshes={['getManagedDeployment', 'listManagedDeployments', 'listEvents']}
      title={`Roll out version ${version + 1}`}
      action="Roll out"
      wide
      initial={{ ...specValuesOf(spec), inPlace: false as boolean }}
      body={({ inPlace, ...values }) => ({ ...specOf(values, spec), inPlace })}
      paths={specPaths}
      done={(made) => `Version ${made.version} is being rolled out`}
      onClose={onClose}
    >
      {(form) => (
        <>
          <p className="text-sm text-muted">
            Without changes, the same version starts again. Old replicas serve until the new ones answer.
          </p>
          <div className="grid gap-3 sm:grid-cols-2">
            <EngineFields form={form} />
            <GpuFields form={form} />
          </div>
          <CheckField
            label="End an old replica first if no GPU is free"
            hint="Otherwise the rollout waits for a spare GPU."
            {...form.check('inPlace')}
          />
        </>
      )}
    </CallDialog>
  )
}
