/** Creating a volume. */
import { kindList } from '../../../src/view/rental.ts'
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
import { Code, Facts } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { Notice } from '../../ui/notice.tsx'
import { toast } from '../../ui/toast.tsx'
import { MONTH_DAYS, TooLittle, useAffordable } from '../rent/money.tsx'
import { MAX_GB, priceOfVolume, STEP_GB, useStorageOption, type StorageOption } from './price.ts'

interface CreateProps {
  /** The region to start with. */
  readonly region?: string | undefined
  /** The marketplace machine that it is for. */
  readonly machine?: string | undefined
  readonly onClose: () => void
}

export function CreateDialog({ region: wanted = '', machine, onClose }: CreateProps) {
  const regions = useRegions()
  const first = regions.find((name) => name === wanted) ?? regions[0] ?? ''
  const regionOf = (values: { region: string }): string => values.region || first
  const form = useCallForm('createVolume', {
    refreshes: ['listVolumes', 'getCustomerBalance'],
    initial: { region: '', label: '', sizeInGb: String(STEP_GB) },
    body: (values) => ({
      region: regionOf(values) as z.output<typeof storageRegion>,
      label: values.label.trim(),
      sizeInGb: optionalNumber(values.sizeInGb),
      nodeName: machine,
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
      {machine !== undefined && (
        <p className="text-sm text-muted">
          For the machine <Code text={machine} />. If the machine keeps volumes on its own disk, only rentals on it can
          use the volume.
        </p>
      )}
      <SelectField
        label="Region"
        choices={regions.map((name) => ({ value: name, label: name }))}
        hint={machine === undefined ? regionHint(option) : 'Sets the price.'}
        {...form.text('region')}
        value={region}
      />
      <TextField
        label="Label"
        placeholder="datasets"
        hint="Mounted at /mnt/LABEL unless you choose another path."
        {...form.text('label')}
      />
      <TextField
        label="Size (GB)"
        type="number"
        min={STEP_GB}
        max={MAX_GB}
        step={STEP_GB}
        hint={machine === undefined ? sizeHint(option) : `In steps of ${STEP_GB}.`}
        {...form.text('sizeInGb')}
      />
      {price !== undefined && <VolumePrice perHour={price} />}
      <TooLittle of={affordable} />
      <NoRegions />
    </FormDialog>
  )
}

export function VolumePrice({ perHour }: { perHour: NanoUsd }) {
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

function sizeHint(option: StorageOption | undefined): string {
  const steps = `In steps of ${STEP_GB}`
  if (option === undefined) return `${steps}.`
  const { availableGb, supports } = option
  const later = supports?.grow === true ? 'it can grow later' : 'it cannot grow later'
  const isShort = availableGb !== null && availableGb < MAX_GB
  return `${steps}; ${later}.${isShort ? ` ${number(availableGb)} GB available.` : ''}`
}

function regionHint(option: StorageOption | undefined): string {
  const kinds = option?.supports?.kinds ?? []
  return kinds.length === 0 ? 'For machines in this region.' : `For ${kindList(kinds)} in this region.`
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
