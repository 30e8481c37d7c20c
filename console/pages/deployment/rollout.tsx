/** Rolls out a new version. New replicas answer before old ones drain. */
import type { ManagedDeployment } from '../../../src/view/deployment.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { valuesOf } from '../../form/field.ts'
import { engineFields, gpuFields, specTexts, weightsFault } from './fields.ts'

export function RolloutDialog({ deployment, onClose }: { deployment: ManagedDeployment; onClose: () => void }) {
  const { id, spec, version } = deployment
  return (
    <FieldDialog
      operation="rolloutManagedDeployment"
      input={{ params: { id } }}
      refreshes={['getManagedDeployment', 'listManagedDeployments', 'listEvents']}
      title={`Roll out version ${version + 1}`}
      action="Roll out"
      wide
      initial={{ ...valuesOf('rolloutManagedDeployment', spec), ...specTexts(spec) }}
      fields={(values) => [...engineFields<'rolloutManagedDeployment'>(values['recipe.name']), ...gpuFields, 'inPlace']}
      check={weightsFault}
      // Parts of the recipe that have no field here, such as the environment, are kept.
      body={({ recipe, ...body }) => ({ ...body, recipe: { ...spec.recipe, ...recipe } })}
      done={(after) => `Version ${after.version} is being rolled out`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        Without changes, the same version starts again. Old replicas serve until the new ones answer.
      </p>
    </FieldDialog>
  )
}
