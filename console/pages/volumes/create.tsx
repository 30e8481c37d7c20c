/** Creating a volume. */
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import type { z } from 'zod'
import { DAY_MS } from '../../../src/base/instant.ts'
import { costOfSpan, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { storageRegion } from '../../../src/contract/region.ts'
import { useCall } from '../../api/query.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { Facts } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { Notice } from '../../ui/notice.tsx'
import { toast } from '../../ui/toast.tsx'
import { MONTH_DAYS, TooLittle, useAffordable } from '../rent/money.tsx'
import { MAX_GB, priceOfVolume, STEP_GB, useStorageOption } from './price.ts'

export function CreateDialog({ onClose }: { onClose: () => void }) {
  const regions = useRegions()
  const regionOf = ({ region }: { region: string }): string => region || (regions[0] ?? '')
  const form = useCallForm('createVolume', {
    refreshes: ['listVolumes', 'getCustomerBalance'],
    initial: { region: '', label: '', sizeInGb: String(STEP_GB) },
    body: (values) => ({
      region: regionOf(values) as z.output<typeof storageRegion>,
      label: values.label.trim(),
      sizeInGb: optionalNumber(values.sizeInGb),
    }),
    onDone: ({ label }) => {
      toast(`Creating ${label}`)
      onClose()
    },
  })
  const region = regionOf(form.values)
  const option = useStorageOption(region)
  const sizeGb = optionalNumber(form.values.sizeInGb) ?? 0
  const price = Number.isInteger(sizeGb) ? priceOfVolume(option, sizeGb) : undefined
  const affordable = useAffordable(price ?? zeroUsd)
  return (
    <FormDialog
      title="Create volume"
      form={form}
      action="Create volume"
      disabledReason={affordable.isEnough === false ? 'Your balance does not cover the first hour' : undefined}
      onClose={onClose}
    >
      <SelectField
        label="Region"
        choices={regions.map((name) => ({ value: name, label: name }))}
        hint="Can only be attached to machines in this region."
        {...form.text('region')}
        value={region}
      />
      <TextField label="Label" placeholder="datasets" hint="Mounted at /mnt/LABEL." {...form.text('label')} />
      <TextField
        label="Size (GB)"
        type="number"
        min={STEP_GB}
        max={MAX_GB}
        step={STEP_GB}
        hint={`In steps of ${STEP_GB}; cannot be changed later.${availabilityHint(option?.availableGb)}`}
        {...form.text('sizeInGb')}
      />
      {price !== undefined && <VolumePrice perHour={price} />}
      <TooLittle of={affordable} />
      <NoRegions />
    </FormDialog>
  )
}

function VolumePrice({ perHour }: { perHour: NanoUsd }) {
  return (
    <div className="rounded-md border border-line bg-sunken p-3" aria-live="polite">
      <Facts
        facts={[
          ['Per hour', <strong key="hour">{money(perHour)}</strong>],
          ['Per day', money(costOfSpan(perHour, DAY_MS))],
          [`Per ${MONTH_DAYS} days`, money(costOfSpan(perHour, MONTH_DAYS * DAY_MS))],
        ]}
      />
    </div>
  )
}

function availabilityHint(availableGb: number | null | undefined): string {
  if (availableGb === null || availableGb === undefined || availableGb >= MAX_GB) return ''
  return ` ${number(availableGb)} GB available.`
}

/** Regions with storage; those with bare metal to attach a volume to come first. */
function useRegions(): readonly string[] {
  const options = useCall('listRentalOptions').data ?? []
  const withMetal = new Set<string>(
    options.filter(({ machineType }) => machineType === 'bare-metal').map(({ region }) => region),
  )
  const storage = useCall('listStorageOptions').data ?? []
  const sold = storage.filter(({ enabled }) => enabled).map(({ region }) => region)
  return [...sold.filter((name) => withMetal.has(name)), ...sold.filter((name) => !withMetal.has(name))]
}

function NoRegions() {
  const { data, error } = useCall('listStorageOptions')
  if (error !== null) return <ErrorNotice error={error} />
  if (data === undefined || data.some(({ enabled }) => enabled)) return null
  return <Notice tone="warn">Storage is not available in any region right now.</Notice>
}
