/** The order of a virtual machine or of bare metal. The chosen offer is in the URL, everything else in this form. */
import { systemClock } from '../../../src/base/instant.ts'
import { nanoUsdOf, zeroUsd } from '../../../src/base/money.ts'
import { api } from '../../../src/contract/api.ts'
import type { RentalType } from '../../../src/contract/rental.ts'
import { quoteTerms, type TermQuote } from '../../../src/domain/term.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { useForm } from '../../form/use-form.ts'
import { priceOfVolume, useStorageOption } from '../volumes/price.ts'
import { SetUpCard, ShapeCard, TermCard } from './card.tsx'
import { checkAdvanced } from './advanced.ts'
import { diskChoice } from './disk.ts'
import { checkEnd } from './guards.tsx'
import type { Like } from './like.ts'
import type { Choices, Selection } from './option.ts'
import { bodyOf, noOrder, orderPaths, useRent, type Order } from './order.ts'
import { isPriceChange } from './refusal.tsx'
import { NoSshKey } from './ssh.tsx'
import { newVolumeGb } from './storage.tsx'
import { RentSummary } from './summary.tsx'
import { templateIdOf, type Template } from './template.tsx'

interface RentFormProps {
  readonly kind: RentalType
  readonly choices: Choices
  readonly template: Template | undefined
  /** The rental whose settings fill in the form. */
  readonly like: Like | undefined
  readonly onSelect: (selection: Selection) => void
}

export function RentForm({ kind, choices, template, like, onSelect }: RentFormProps) {
  const { chosen } = choices
  const reserveOptions = useCall('listReserveOptions', {}, { enabled: useMay('compute:read') }).data ?? []
  const terms = quoteTerms(reserveOptions, chosen.perHour)
  const termOf = ({ days }: Order): TermQuote | undefined => terms.find((term) => String(term.days) === days)
  const renting = useRent()
  const { option, gpuCount, perHour } = chosen
  const { region, gpuType, connectionType: networkType } = option
  const offer = {
    kind,
    place: { region, gpuType, networkType, gpuCount },
    perHour,
    templateId: templateIdOf(template),
    like,
  }
  const form = useForm({
    initial: like === undefined ? noOrder : { ...noOrder, ...like.typed },
    schema: api.createRental.body,
    body: (order) => bodyOf(order, { ...offer, term: termOf(order) }),
    check: (order) => ({ ...checkEnd(order), ...checkAdvanced(order, systemClock.now()) }),
    paths: orderPaths,
    action: renting,
    send: renting.order,
  })
  const term = termOf(form.values)
  const volumeGb = newVolumeGb(form.values)
  const disk = diskChoice(chosen.option, chosen.option.nodes[0]?.storageGb ?? 0, {
    typed: form.values.diskGb,
    template,
    perHour: chosen.perHour,
  })
  const volumePrice = priceOfVolume(useStorageOption(chosen.option.region), volumeGb)
  // A changed price applied to the shape and term of the last order.
  const forgetPrice = (): void => {
    if (isPriceChange(renting.error)) renting.reset()
  }
  return (
    <form
      onSubmit={form.submit}
      noValidate
      className="grid items-start gap-4 max-lg:pb-20 lg:grid-cols-[minmax(0,1fr)_20rem]"
    >
      <div className="flex min-w-0 flex-col gap-4">
        <NoSshKey />
        <ShapeCard
          kind={kind}
          choices={choices}
          disk={disk}
          onSelect={(selection) => {
            forgetPrice()
            onSelect(selection)
          }}
          errorAt={form.errorAt}
        />
        <TermCard terms={terms} term={term} listPrice={chosen.perHour} form={form} onDays={forgetPrice} />
        <SetUpCard kind={kind} chosen={chosen} template={template} disk={disk} form={form} />
      </div>
      <RentSummary
        chosen={chosen}
        term={term}
        disk={disk}
        storage={volumeGb === 0 || volumePrice === undefined ? undefined : { sizeGb: volumeGb, perHour: volumePrice }}
        perHour={nanoUsdOf((term?.perHour ?? chosen.perHour) + (volumePrice ?? zeroUsd))}
        priceLimit={renting.priceLimit}
        form={form}
      />
    </form>
  )
}
