/** Growing, copying and deleting a volume. */
import { useNavigate } from '@tanstack/react-router'
import { usdFromNumber, zeroUsd } from '../../../src/base/money.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import type { Volume } from '../../../src/view/volume.ts'
import { ConfirmCall, FormDialog } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { useFieldForm } from '../../form/field-form.ts'
import { Fields } from '../../form/fields.tsx'
import { optionalNumber } from '../../form/read.ts'
import { toast } from '../../ui/toast.tsx'
import { useVolumeCost } from '../volumes/cost.tsx'
import { MAX_GB, STEP_GB } from '../volumes/price.ts'

interface ChangeProps {
  readonly volume: Volume
  readonly onClose: () => void
}

const refreshes = ['listVolumes', 'getCustomerBalance'] as const
const sizeLook = { label: 'New size (GB)', hint: `In steps of ${STEP_GB}, up to ${number(MAX_GB)}.` }

export function GrowDialog({ volume, onClose }: ChangeProps) {
  const isMore = (sizeGb: number | undefined): boolean => (sizeGb ?? 0) > volume.sizeGb
  const form = useFieldForm('growVolume', {
    refreshes,
    input: { params: { id: volume.id } },
    fields: [['sizeInGb', sizeLook]],
    initial: { sizeInGb: String(Math.min(MAX_GB, volume.sizeGb + STEP_GB)) },
    check: ({ sizeInGb }) => ({
      sizeInGb: isMore(optionalNumber(sizeInGb)) ? undefined : `Must be more than ${number(volume.sizeGb)}`,
    }),
    onDone: ({ growingToGb }) => {
      toast(`Growing ${volume.label} to ${number(growingToGb)} GB`)
      onClose()
    },
  })
  const sizeGb = optionalNumber(form.values.sizeInGb)
  const perHourNow = usdFromNumber(volume.costPerHour) ?? zeroUsd
  const cost = useVolumeCost(volume.region, isMore(sizeGb) ? sizeGb : undefined, perHourNow)
  return (
    <FormDialog
      title={`Grow ${volume.label}`}
      form={form}
      action="Grow volume"
      disabledReason={cost.disabledReason}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        {number(volume.sizeGb)} GB now, for {hourlyPrice(perHourNow)}. A volume cannot shrink again. It can stay in use
        {volume.supports.kinds.includes('virtual-machine') &&
          '; in a virtual machine the space appears at its next boot'}
        .
      </p>
      <Fields form={form} />
      {cost.view}
    </FormDialog>
  )
}

export function CloneDialog({ volume, onClose }: ChangeProps) {
  const navigate = useNavigate()
  const cost = useVolumeCost(volume.region, volume.sizeGb)
  return (
    <FieldDialog
      operation="cloneVolume"
      refreshes={refreshes}
      input={{ params: { id: volume.id } }}
      title={`Clone ${volume.label}`}
      action="Clone volume"
      initial={{ label: `${volume.label}-copy` }}
      fields={[['label', { label: 'Label of the copy' }], { show: cost.view }]}
      disabledReason={cost.disabledReason}
      done={({ label }) => `Copying ${volume.label} to ${label}`}
      onDone={({ storageVolumeId }) => {
        void navigate({ to: '/volumes/$id', params: { id: String(storageVolumeId) } })
        onClose()
      }}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        Makes a new volume of {number(volume.sizeGb)} GB with the same data, {whereOf(volume)}. Until the copy is ready,
        the original cannot be attached or deleted.
      </p>
    </FieldDialog>
  )
}

function whereOf({ nodeName, region }: Volume): string {
  return nodeName === null ? `in ${region}` : 'on the same machine'
}

export function DeleteDialog({ volume, onClose }: ChangeProps) {
  const navigate = useNavigate()
  return (
    <ConfirmCall
      title={`Delete ${volume.label}`}
      action="Delete volume"
      word={volume.label}
      operation="terminateVolume"
      input={{ body: { storageVolumeId: volume.id } }}
      refreshes={refreshes}
      done={`Deleting ${volume.label}`}
      onDone={() => void navigate({ to: '/volumes' })}
      onClose={onClose}
    >
      Deletes all {number(volume.sizeGb)} GB of data. This cannot be undone. Billing stops immediately.
    </ConfirmCall>
  )
}
