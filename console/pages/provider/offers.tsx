/** The current offers of a cloud, and which of them are on sale here. */
import { useState } from 'react'
import { limits } from '../../../src/base/limits.ts'
import { gpusLabel } from '../../../src/view/gpu.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { saleLabel, type Provider, type ProviderOffer } from '../../../src/view/provider.ts'
import { useCall } from '../../api/query.ts'
import { Ago, badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

/** The cloud is asked, which may want pauses between requests. */
const OFFERS_MS = 70_000

export function ProviderOffers({ account: { name, state, answeredAt } }: { account: Provider }) {
  // A cloud that fails is asked only on request, because each attempt may take a minute.
  const isFailing = state === 'stale' || state === 'broken'
  const [isAsked, setAsked] = useState(false)
  const enabled = isAsked || !isFailing
  const offers = useCall('listProviderOffers', { params: { name }, timeoutMs: OFFERS_MS }, { enabled })
  if (!enabled && offers.data === undefined)
    return (
      <Empty title="Offers are not known" action={<Button onClick={() => setAsked(true)}>Ask now</Button>}>
        {answeredAt === null ? (
          'The cloud has never listed its offers.'
        ) : (
          <>
            The cloud last listed its offers <Ago at={answeredAt} />.
          </>
        )}
      </Empty>
    )
  return (
    <Answer of={offers} skeleton={<Skeleton rows={6} />}>
      {(reply) => (
        <div className="flex flex-col gap-2">
          <p className="text-sm text-muted" role="status">
            {number(reply.offers.filter(isOnSale).length)} of {number(reply.offers.length)} offers on sale. Prices are
            per machine and hour.
          </p>
          <Table
            label="Offers"
            columns={columns}
            rows={reply.offers.toSorted((a, b) => rankOf(a) - rankOf(b))}
            rowKey={(offer) => `${offer.providerRegion} ${offer.type} ${offer.machineType}`}
            empty="The cloud offers nothing now."
          />
        </div>
      )}
    </Answer>
  )
}

/** Offers on sale come first, then those that could be, then the others. */
function rankOf(offer: ProviderOffer): number {
  return isOnSale(offer) ? 0 : offer.unsold === null ? 1 : offer.unsold === 'no_capacity' ? 2 : 3
}

function isOnSale({ unsold, sale }: ProviderOffer): boolean {
  return unsold === null && sale !== null && sale.pricePerHourUsd !== null && sale.free > 0
}

/** The time of the last report. Offers of an old report are not sold. */
function LastListed({ at }: { at: string }) {
  const isStale = useNow() - Date.parse(at) > limits.offerAgeMs
  return (
    <span className="whitespace-nowrap">
      <Ago at={at} /> {isStale && <Badge tone="warn">stale</Badge>}
    </span>
  )
}

const columns: Columns<ProviderOffer> = [
  textColumn('Type', ({ type, gpu, gpuCount }) => (
    <div>
      <div className="font-medium break-all">{type}</div>
      <div className="text-muted">{gpuCount === 0 ? gpu : gpusLabel(gpuCount, gpu)}</div>
    </div>
  )),
  textColumn('Region', ({ providerRegion, region }) => (
    <div className="whitespace-nowrap">
      {providerRegion}
      {region !== null && region !== providerRegion && <div className="text-muted">sold as {region}</div>}
    </div>
  )),
  badgeColumn('Status', saleLabel),
  textColumn('Cost', ({ costPerHourUsd }) => hourlyPrice(costPerHourUsd), { align: 'right' }),
  textColumn('Price', ({ sale }) => (sale?.pricePerHourUsd ? hourlyPrice(sale.pricePerHourUsd) : null), {
    align: 'right',
  }),
  textColumn('Free', ({ sale }) => sale && number(sale.free), { align: 'right' }),
  textColumn('Rented', ({ sale }) => sale && number(sale.rented), { align: 'right', wideOnly: true }),
  textColumn('Last listed', ({ sale }) => sale && <LastListed at={sale.seenAt} />),
]
