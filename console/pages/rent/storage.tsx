/** The storage of a bare-metal order: none, a new volume, or one of the region that is there already. */
import { hourlyPrice } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { RadioField } from '../../ui/radio-field.tsx'
import { priceOfVolume, useStorageOption } from '../volumes/price.ts'
import { readVolume, STEP_GB, usualVolume, type VolumeTexts } from '../volumes/size.ts'

/** As it is chosen and typed. */
interface StorageTexts {
  readonly way: 'none' | 'new' | 'existing'
  readonly fresh: VolumeTexts
  /** Of the one that is there; empty: not chosen yet. */
  readonly id: string
}

export const noStorage: StorageTexts = { way: 'none', fresh: usualVolume, id: '' }

interface StorageFaults {
  readonly label?: string | undefined
  readonly sizeGb?: string | undefined
  readonly id?: string | undefined
}

/** As an order names it. */
export type StorageWish = { isNew: true; label: string; sizeInGb: number } | { isNew: false; id: number }

/** What the order says, or what is wrong at which field. */
export function readStorage({ way, fresh, id }: StorageTexts): {
  readonly wish?: StorageWish
  readonly faults: StorageFaults
} {
  if (way === 'none') return { faults: {} }
  if (way === 'existing') {
    return id === ''
      ? { faults: { id: 'Choose a volume' } }
      : { wish: { isNew: false, id: Number.parseInt(id, 10) }, faults: {} }
  }
  const { label, sizeGb, faults } = readVolume(fresh)
  return { wish: { isNew: true, label, sizeInGb: sizeGb }, faults }
}

interface StorageFieldsProps {
  readonly region: string
  readonly texts: StorageTexts
  readonly faults: StorageFaults
  readonly onChange: (texts: StorageTexts) => void
}

export function StorageFields({ region, texts, faults, onChange }: StorageFieldsProps) {
  const volumes = useCall('listVolumes')
  const here = (volumes.data ?? []).filter((volume) => volume.region === region && volume.status === 'active')
  const { sizeGb } = readVolume(texts.fresh)
  const option = useStorageOption(region)
  const { isSuccess: isKnown } = useCall('listStorageOptions')
  const price = priceOfVolume(option, sizeGb)
  const fresh = (name: keyof VolumeTexts) => (event: { target: { value: string } }) =>
    onChange({ ...texts, fresh: { ...texts.fresh, [name]: event.target.value } })
  return (
    <div className="flex flex-col gap-3">
      <RadioField
        label="Storage volume"
        value={texts.way}
        onChange={(way) => onChange({ ...texts, way: way as StorageTexts['way'] })}
        choices={[
          { value: 'none', label: 'None' },
          {
            value: 'new',
            label: 'A new one',
            ...(isKnown && option === undefined ? { detail: `not sold in ${region}`, disabled: true } : {}),
          },
          {
            value: 'existing',
            label: 'One I have',
            detail: here.length === 0 ? `none in ${region}` : `${here.length} in ${region}`,
            disabled: here.length === 0,
          },
        ]}
      />
      {texts.way === 'new' && (
        <div className="grid items-start gap-3 sm:grid-cols-2">
          <TextField
            label="Volume label"
            value={texts.fresh.label}
            onChange={fresh('label')}
            placeholder="datasets"
            hint="Mounted at /mnt/ and this name."
            error={faults.label}
          />
          <TextField
            label="Volume size in GB"
            type="number"
            min={STEP_GB}
            step={STEP_GB}
            value={texts.fresh.sizeGb}
            onChange={fresh('sizeGb')}
            hint={price === undefined || sizeGb === 0 ? `In steps of ${STEP_GB}.` : `${hourlyPrice(price)} on top.`}
            error={faults.sizeGb}
          />
        </div>
      )}
      {texts.way === 'existing' && (
        <SelectField
          label="Volume"
          value={texts.id}
          onChange={(event) => onChange({ ...texts, id: event.target.value })}
          choices={[
            { value: '', label: 'Choose …' },
            ...here.map((volume) => ({
              value: String(volume.id),
              label: `${volume.label}, ${number(volume.sizeGb)} GB`,
            })),
          ]}
          error={faults.id}
        />
      )}
    </div>
  )
}
