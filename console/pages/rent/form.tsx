/**
 * The order of a virtual machine or of bare metal. What is chosen of the offer stands in the address, the rest here;
 * the price beside it changes with every choice.
 */
import { useState, type FormEvent } from 'react'
import { systemClock } from '../../../src/base/instant.ts'
import { nanoUsdOf, zeroUsd } from '../../../src/base/money.ts'
import type { RentalType } from '../../../src/contract/rental.ts'
import { quoteTerms } from '../../../src/domain/term.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { noDetails, SetUpCard, ShapeCard, TermCard, type Details, type RentFaults, type RentPlace } from './card.tsx'
import { hasFaults, readGuards } from './guards.tsx'
import type { Choices, Wish } from './option.ts'
import { useRent } from './order.ts'
import { isPriceChange } from './refusal.tsx'
import { readPorts } from './ports.ts'
import { NoSshKey } from './ssh.tsx'
import { readStorage } from './storage.tsx'
import { RentSummary } from './summary.tsx'
import { priceOfVolume, useStorageOption } from '../volumes/price.ts'

/** By the field that shows it, where the server's refusal names it. */
const places = {
  region: 'region',
  gpu: 'gpuType',
  network: 'networkType',
  count: 'gpuCount',
  term: 'termPeriodDays',
  ports: 'customPorts',
  label: 'label',
  endsAt: 'autoTerminateAt',
  limitUsd: 'spendingLimitUsd',
  volumeLabel: 'storageVolume.label',
  volumeSizeGb: 'storageVolume.sizeInGb',
  volumeId: 'storageVolume.id',
} as const satisfies Record<RentPlace, string>

interface RentFormProps {
  readonly kind: RentalType
  readonly choices: Choices
  readonly onWish: (wish: Wish) => void
}

export function RentForm({ kind, choices, onWish }: RentFormProps) {
  const [details, setDetails] = useState<Details>(noDetails)
  const [isTried, setTried] = useState(false)
  const reserveOptions = useCall('listReserveOptions', {}, { enabled: useMay('compute:read') }).data ?? []
  const { order, error, asked, isPending, forget } = useRent(kind)
  const { chosen } = choices
  const terms = quoteTerms(reserveOptions, chosen.perHour)
  const term = terms.find(({ days }) => days === details.days)
  const { guards, faults: guardFaults } = readGuards(details.guards, systemClock.now())
  const { ports, fault: portsFault } = readPorts(details.ports)
  const { wish: storage, faults: storageFaults } = readStorage(details.storage)
  const newVolumeGb = storage?.isNew === true ? storage.sizeInGb : 0
  const volumePrice = priceOfVolume(useStorageOption(chosen.option.region), newVolumeGb)
  const local: RentFaults = {
    ...guardFaults,
    ports: portsFault,
    volumeLabel: storageFaults.label,
    volumeSizeGb: storageFaults.sizeGb,
    volumeId: storageFaults.id,
  }
  const faults = Object.fromEntries(
    Object.entries(places).map(([place, path]) => [
      place,
      (isTried ? local[place as RentPlace] : undefined) ?? fieldError(error, path),
    ]),
  ) as RentFaults
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (!hasFaults(local)) order({ ...details, chosen, term, guards, ports, storage })
  }
  // A price that has changed is one of the shape and term that were ordered.
  const forgetPrice = (): void => {
    if (isPriceChange(error)) forget()
  }
  const onChange = (changed: Partial<Details>): void => {
    if ('days' in changed) forgetPrice()
    setDetails({ ...details, ...changed })
  }
  const cards = { details, faults, onChange }
  return (
    <form onSubmit={submit} noValidate className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_20rem]">
      <div className="flex min-w-0 flex-col gap-4">
        <NoSshKey />
        <ShapeCard
          kind={kind}
          choices={choices}
          onWish={(wish) => {
            forgetPrice()
            onWish(wish)
          }}
          faults={faults}
        />
        <TermCard terms={terms} term={term} listPrice={chosen.perHour} {...cards} />
        <SetUpCard kind={kind} region={chosen.option.region} {...cards} />
      </div>
      <RentSummary
        chosen={chosen}
        term={term}
        storage={
          newVolumeGb === 0 || volumePrice === undefined ? undefined : { sizeGb: newVolumeGb, perHour: volumePrice }
        }
        perHour={nanoUsdOf((term?.perHour ?? chosen.perHour) + (volumePrice ?? zeroUsd))}
        isPending={isPending}
        asked={asked}
        error={errorBesideFields(error, Object.values(places))}
      />
    </form>
  )
}
