/** A new volume: where, how large, and what that costs. */
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { useState, type FormEvent } from 'react'
import { DAY_MS } from '../../../src/base/instant.ts'
import { costOfSpan, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import { storageRegion } from '../../../src/contract/region.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Facts } from '../../ui/card.tsx'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { Notice } from '../../ui/notice.tsx'
import { toast } from '../../ui/toast.tsx'
import { hasFaults } from '../rent/guards.tsx'
import { MONTH_DAYS, TooLittle, useAffordable } from '../rent/money.tsx'
import { priceOfVolume, useStorageOption } from './price.ts'
import { MAX_GB, readVolume, STEP_GB, usualVolume, type VolumeTexts } from './size.ts'

const fields = ['region', 'label', 'sizeInGb'] as const

export function CreateDialog({ onClose }: { onClose: () => void }) {
  const regions = useRegions()
  const [wished, setRegion] = useState<string | undefined>()
  const region = wished ?? regions[0] ?? ''
  const [texts, setTexts] = useState<VolumeTexts>(usualVolume)
  const [isTried, setTried] = useState(false)
  const create = useAction('createVolume', ['listVolumes', 'getCustomerBalance'])
  const { label, sizeGb, faults } = readVolume(texts)
  const option = useStorageOption(region)
  const price = priceOfVolume(option, sizeGb)
  const affordable = useAffordable(price ?? zeroUsd)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    const known = storageRegion.safeParse(region)
    if (hasFaults(faults) || !known.success) return
    create.mutate(
      { body: { region: known.data, label, sizeInGb: sizeGb } },
      {
        onSuccess: () => {
          toast(`${label} is being made`)
          onClose()
        },
      },
    )
  }
  const type = (name: keyof VolumeTexts) => (event: { target: { value: string } }) =>
    setTexts({ ...texts, [name]: event.target.value })
  const said = errorBesideFields(create.error, fields)
  return (
    <Dialog title="Create a volume" onClose={onClose}>
      <form onSubmit={submit} noValidate className="flex flex-col gap-4">
        <SelectField
          label="Region"
          value={region}
          onChange={(event) => setRegion(event.target.value)}
          choices={regions.map((name) => ({ value: name, label: name }))}
          hint="Only machines of this region can have it."
          error={fieldError(create.error, 'region')}
        />
        <TextField
          label="Label"
          value={texts.label}
          onChange={type('label')}
          placeholder="datasets"
          hint="Machines mount it at /mnt/ and this name."
          error={(isTried ? faults.label : undefined) ?? fieldError(create.error, 'label')}
        />
        <TextField
          label="Size in GB"
          type="number"
          min={STEP_GB}
          max={MAX_GB}
          step={STEP_GB}
          value={texts.sizeGb}
          onChange={type('sizeGb')}
          hint={`From ${STEP_GB}, in steps of ${STEP_GB}. It cannot be changed later.${roomWords(option?.availableGb)}`}
          error={(isTried || texts.sizeGb !== '' ? faults.sizeGb : undefined) ?? fieldError(create.error, 'sizeInGb')}
        />
        {price !== undefined && <VolumePrice perHour={price} />}
        <TooLittle of={affordable} />
        <NoRegions />
        {said !== null && <ErrorNotice error={said} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={create.isPending} disabled={affordable.isEnough === false}>
            Create the volume
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
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

/** Nothing to say where any size fits. */
function roomWords(availableGb: number | null | undefined): string {
  if (availableGb === null || availableGb === undefined || availableGb >= MAX_GB) return ''
  return ` There is room for ${number(availableGb)} GB now.`
}

/** Where volumes are sold. Regions with machines that can carry one come first. */
function useRegions(): readonly string[] {
  const options = useCall('listRentalOptions').data ?? []
  const withMetal = new Set<string>(
    options.filter(({ machineType }) => machineType === 'bare-metal').map(({ region }) => region),
  )
  const storage = useCall('listStorageOptions').data ?? []
  const sold = storage.filter(({ enabled }) => enabled).map(({ region }) => region)
  return [...sold.filter((name) => withMetal.has(name)), ...sold.filter((name) => !withMetal.has(name))]
}

/** Why there is no region to choose, if there is none. */
function NoRegions() {
  const { data, error } = useCall('listStorageOptions')
  if (error !== null) return <ErrorNotice error={error} />
  if (data === undefined || data.some(({ enabled }) => enabled)) return null
  return <Notice tone="warn">Storage is not sold in any region right now.</Notice>
}
