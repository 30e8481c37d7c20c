/** The volume of a bare-metal order: none, a new one, or an existing one in the region. */
import { number } from '../../../src/view/number.ts'
import { isUsableAt } from '../../../src/view/volume.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { optionalNumber } from '../../form/read.ts'
import type { Form } from '../../form/use-form.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { RadioField } from '../../ui/radio-field.tsx'
import { priceOfVolume, STEP_GB, useStorageOption } from '../volumes/price.ts'

export const noStorage = { volume: 'none', volumeLabel: '', volumeSizeGb: String(STEP_GB), volumeId: '' }
type Storage = typeof noStorage

/** The volume fields of the order. */
export function storageOf({ volume, volumeLabel, volumeSizeGb, volumeId }: Storage) {
  if (volume === 'none') return {}
  return volume === 'new'
    ? { newVolume: { label: volumeLabel.trim(), sizeInGb: optionalNumber(volumeSizeGb) ?? Number.NaN } }
    : { volumes: [{ volumeId: optionalNumber(volumeId) ?? Number.NaN }] }
}

/** The size of a new volume, which is charged on top of the machine. 0: no new volume, or an invalid size. */
export function newVolumeGb(storage: Storage): number {
  const size = storage.volume === 'new' ? optionalNumber(storage.volumeSizeGb) : undefined
  return size !== undefined && Number.isInteger(size) ? size : 0
}

export function StorageFields({
  region,
  form,
}: {
  region: string
  form: Pick<Form<Storage>, 'text' | 'values' | 'set'>
}) {
  const volumes = useCall('listVolumes')
  const usableVolumes = (volumes.data ?? []).filter((volume) => isUsableAt(volume, { kind: 'bare-metal', region }))
  const { values } = form
  const option = useStorageOption(region)
  const { isSuccess: isKnown } = useCall('listStorageOptions')
  const sizeGb = newVolumeGb(values)
  const price = priceOfVolume(option, sizeGb)
  return (
    <div className="flex flex-col gap-3">
      <RadioField
        label="Storage volume"
        value={values.volume}
        onChange={(volume) => form.set({ volume })}
        choices={[
          { value: 'none', label: 'None' },
          {
            value: 'new',
            label: 'New volume',
            ...(isKnown && option === undefined ? { detail: `not available in ${region}`, disabled: true } : {}),
          },
          {
            value: 'existing',
            label: 'Existing volume',
            detail: usableVolumes.length === 0 ? `none in ${region}` : `${usableVolumes.length} in ${region}`,
            disabled: usableVolumes.length === 0,
          },
        ]}
      />
      {values.volume === 'new' && (
        <div className="grid items-start gap-3 sm:grid-cols-2">
          <TextField
            label="Volume label"
            placeholder="datasets"
            hint="Mounted at /mnt/LABEL."
            {...form.text('volumeLabel')}
          />
          <TextField
            label="Volume size (GB)"
            type="number"
            min={STEP_GB}
            step={STEP_GB}
            hint={price === undefined || sizeGb === 0 ? `In steps of ${STEP_GB}.` : `Adds ${hourlyPrice(price)}.`}
            {...form.text('volumeSizeGb')}
          />
        </div>
      )}
      {values.volume === 'existing' && (
        <SelectField
          label="Volume"
          choices={[
            { value: '', label: 'Choose …' },
            ...usableVolumes.map(({ id, label, sizeGb: size }) => ({
              value: String(id),
              label: `${label}, ${number(size)} GB`,
            })),
          ]}
          {...form.text('volumeId')}
        />
      )}
    </div>
  )
}
