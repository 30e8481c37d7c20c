/** Creates a volume. */
import { kindList } from '../../../src/view/rental.ts'
import { number } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { useFieldForm } from '../../form/field-form.ts'
import { Fields } from '../../form/fields.tsx'
import { optionalNumber } from '../../form/read.ts'
import { Code } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Notice } from '../../ui/notice.tsx'
import { toast } from '../../ui/toast.tsx'
import { useVolumeCost } from './cost.tsx'
import { MAX_GB, STEP_GB, useStorageOption, type StorageOption } from './price.ts'

const IN_STEPS = `In steps of ${STEP_GB}`

interface CreateProps {
  /** The region that is selected first. */
  readonly region?: string | undefined
  /** The marketplace machine that the volume is for. */
  readonly machine?: string | undefined
  readonly onClose: () => void
}

export function CreateDialog({ region: firstRegion = '', machine, onClose }: CreateProps) {
  const regions = useRegions()
  const regionOf = (typed: string): string =>
    typed || (regions.find((name) => name === firstRegion) ?? regions[0] ?? '')
  const form = useFieldForm('createVolume', {
    refreshes: ['listVolumes', 'getCustomerBalance'],
    initial: { region: '', sizeInGb: String(STEP_GB) },
    fields: ['label', 'sizeInGb'],
    body: (body, { region: typed }) => ({ ...body, region: regionOf(typed), nodeName: machine }),
    onDone: ({ label }) => {
      toast(`Creating ${label}`)
      onClose()
    },
  })
  const region = regionOf(form.values.region)
  const option = useStorageOption(region)
  const cost = useVolumeCost(region, optionalNumber(form.values.sizeInGb))
  return (
    <FormDialog
      title="Create volume"
      form={form}
      action="Create volume"
      disabledReason={cost.disabledReason}
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
      <Fields
        form={form}
        entries={[
          ['label', { placeholder: 'datasets', hint: 'Mounted at /mnt/LABEL unless you choose another path.' }],
          ['sizeInGb', { label: 'Size (GB)', hint: machine === undefined ? sizeHint(option) : `${IN_STEPS}.` }],
        ]}
      />
      {cost.view}
      <NoRegions />
    </FormDialog>
  )
}

function sizeHint(option: StorageOption | undefined): string {
  if (option === undefined) return `${IN_STEPS}.`
  const { availableGb, supports } = option
  const later = supports?.grow === true ? 'it can grow later' : 'it cannot grow later'
  const isShort = availableGb !== null && availableGb < MAX_GB
  return `${IN_STEPS}; ${later}.${isShort ? ` ${number(availableGb)} GB available.` : ''}`
}

function regionHint(option: StorageOption | undefined): string {
  const kinds = option?.supports?.kinds ?? []
  return kinds.length === 0 ? 'For machines in this region.' : `For ${kindList(kinds)} in this region.`
}

/** Regions with storage. Regions that also have bare metal, to which a volume can be attached, come first. */
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
