/** Growing, copying and deleting a volume. */
import { useNavigate } from '@tanstack/react-router'
import { nanoUsdOf, usdFromNumber, zeroUsd } from '../../../src/base/money.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import type { Volume } from '../../../src/view/volume.ts'
import { ConfirmCall, FormDialog } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { TooLittle, useAffordable } from '../rent/money.tsx'
import { VolumePrice } from '../volumes/create.tsx'
import { MAX_GB, priceOfVolume, STEP_GB, useStorageOption } from '../volumes/price.ts'

interface ChangeProps {
  readonly volume: Volume
  readonly onClose: () => void
}

const refreshes = ['listVolumes', 'getCustomerBalance'] as const

export function GrowDialog({ volume, onClose }: ChangeProps) {
  const form = useCallForm('growVolume', {
    refreshes,
    initial: { sizeInGb: String(Math.min(MAX_GB, volume.sizeGb + STEP_GB)) },
    input: { params: { id: volume.id } },
    body: (values) => ({ sizeInGb: optionalNumber(values.sizeInGb) }),
    check: (values) => ({
      sizeInGb:
        (optionalNumber(values.sizeInGb) ?? 0) > volume.sizeGb
          ? undefined
          : `Must be more than ${number(volume.sizeGb)}`,
    }),
    onDone: ({ growingToGb }) => {
      toast(`Growing ${volume.label} to ${number(growingToGb)} GB`)
      onClose()
    },
  })
  const sizeGb = optionalNumber(form.values.sizeInGb) ?? 0
  const option = useStorageOption(volume.region)
  const price = Number.isInteger(sizeGb) && sizeGb > volume.sizeGb ? priceOfVolume(option, sizeGb) : undefined
  const now = usdFromNumber(volume.costPerHour) ?? zeroUsd
  const more = price === undefined || price <= now ? zeroUsd : nanoUsdOf(price - now)
  const affordable = useAffordable(more)
  return (
    <FormDialog
      title={`Grow ${volume.label}`}
      form={form}
      action="Grow volume"
      disabledReason={affordable.isEnough === false ? 'Your balance does not cover the first hour' : undefined}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        {number(volume.sizeGb)} GB now, for {hourlyPrice(now)}. A volume cannot shrink again. It can stay in use
        {volume.supports.kinds.includes('virtual-machine') &&
          '; in a virtual machine the space appears at its next boot'}
        .
      </p>
      <TextField
        label="New size (GB)"
        type="number"
        min={volume.sizeGb + STEP_GB}
        max={MAX_GB}
        step={STEP_GB}
        hint={`In steps of ${STEP_GB}, up to ${number(MAX_GB)}.`}
        {...form.text('sizeInGb')}
      />
      {price !== undefined && <VolumePrice perHour={price} />}
      <TooLittle of={affordable} />
    </FormDialog>
  )
}

export function CloneDialog({ volume, onClose }: ChangeProps) {
  const navigate = useNavigate()
  const price = priceOfVolume(useStorageOption(volume.region), volume.sizeGb)
  const affordable = useAffordable(price ?? zeroUsd)
  const form = useCallForm('cloneVolume', {
    refreshes,
    initial: { label: `${volume.label}-copy` },
    input: { params: { id: volume.id } },
    body: ({ label }) => ({ label: label.trim() }),
    onDone: ({ storageVolumeId, label }) => {
      toast(`Copying ${volume.label} to ${label}`)
      void navigate({ to: '/volumes/$id', params: { id: String(storageVolumeId) } })
      onClose()
    },
  })
  return (
    <FormDialog
      title={`Clone ${volume.label}`}
      form={form}
      action="Clone volume"
      disabledReason={affordable.isEnough === false ? 'Your balance does not cover the first hour' : undefined}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        Makes a new volume of {number(volume.sizeGb)} GB with the same data, {whereOf(volume)}. Until the copy is ready,
        the original cannot be attached or deleted.
      </p>
      <TextField label="Label of the copy" {...form.text('label')} />
      {price !== undefined && <VolumePrice perHour={price} />}
      <TooLittle of={affordable} />
    </FormDialog>
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
