/** Five offers of a cloud with the prices that a markup makes of them. */
import { compareUsd, nanoUsdOf, usd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { count } from '../../../src/view/number.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { Table } from '../../ui/table.tsx'

type Offer = Reply<'tryProvider'>['offers'][number]

const SHOWN_OFFERS = 5
const BASIS_POINTS = 10_000n

interface PricePreviewProps {
  readonly offers: readonly Offer[]
  /** In percent. undefined: only the price book sets prices. */
  readonly markup: number | undefined
}

export function PricePreview({ offers, markup }: PricePreviewProps) {
  const sold = offers.filter(({ unsold }) => unsold === null)
  const isMarkup = markup !== undefined && Number.isFinite(markup) && markup >= 0
  const columns: Columns<Offer> = [
    textColumn('Offer', ({ type, gpuCount, gpu }) => (
      <div>
        <div className="break-words">{type}</div>
        <div className="text-muted">
          {gpuCount} × {gpu}
        </div>
      </div>
    )),
    textColumn('Region', ({ region }) => region ?? '', { wideOnly: true }),
    textColumn('Cost', ({ costPerHourUsd }) => hourlyPrice(costPerHourUsd), { align: 'right' }),
    textColumn('Your price', ({ costPerHourUsd }) => (isMarkup ? sellingPrice(costPerHourUsd, markup) : 'price book'), {
      align: 'right',
      className: 'font-medium',
    }),
  ]
  return (
    <div className="flex flex-col gap-2">
      <p className="text-sm">
        {count(sold.length, 'offer')} of {offers.length} can be sold here.
        {sold.length > 0 && ' For example:'}
      </p>
      {sold.length > 0 && (
        <Table
          label="Examples of prices"
          columns={columns}
          rows={examples(sold)}
          rowKey={({ offerId, type }) => offerId ?? type}
          empty={null}
        />
      )}
    </div>
  )
}

function sellingPrice(costPerHourUsd: string, markup: number): string {
  const basisPoints = BASIS_POINTS + BigInt(Math.round(markup * 100))
  return hourlyPrice(nanoUsdOf((usd(costPerHourUsd) * basisPoints) / BASIS_POINTS))
}

/** Different types, spread from the cheapest to the most expensive. */
function examples(sold: readonly Offer[]): readonly Offer[] {
  const types = [...new Map(sold.map((offer) => [offer.type, offer])).values()].toSorted((a, b) =>
    compareUsd(usd(a.costPerHourUsd), usd(b.costPerHourUsd)),
  )
  if (types.length <= SHOWN_OFFERS) return types
  const step = (types.length - 1) / (SHOWN_OFFERS - 1)
  return Array.from({ length: SHOWN_OFFERS }, (_, at) => types[Math.round(at * step)]).filter(
    (offer) => offer !== undefined,
  )
}
