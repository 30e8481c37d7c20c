/** Revenue, cost and margin of the last 30 days, per day or per rental. */
import { getRouteApi } from '@tanstack/react-router'
import type { Provider } from '../../../src/view/provider.ts'
import { moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { choicesIn, FilterBar } from '../../list/filter.tsx'
import { ListTable } from '../../list/table.tsx'
import { MarginAmount, type Margin } from './parts.tsx'

const route = getRouteApi('/shell/operator/providers/$name')
const EVERY_MS = 60_000
const groups = choicesIn({ rental: 'Rental' })

export function ProviderMargin({ account: { name } }: { account: Provider }) {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { by = 'day' } = search
  return (
    <div className="flex flex-col gap-3">
      <FilterBar
        label="Margin"
        fields={[{ name: 'by', label: 'One row per', choices: groups, any: 'Day' }]}
        search={search}
        onChange={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      />
      <ListTable
        label="Margin"
        call="listMargins"
        input={{ query: { by, name } }}
        everyMs={EVERY_MS}
        rows={({ margins }) => (by === 'day' ? margins.toReversed() : margins)}
        rowKey="subject"
        columns={columnsOf(by)}
        empty="No rentals there in the last 30 days."
        after={
          <p className="mt-2 text-sm text-muted">
            The last 30 days (UTC). Revenue is what customers were charged, less refunds; cost is what the cloud
            charges.
          </p>
        }
      />
    </div>
  )
}

function columnsOf(by: 'day' | 'rental'): Columns<Margin> {
  return [
    textColumn(by === 'day' ? 'Day' : 'Rental', ({ subject }) => (/^\d+$/.test(subject) ? `#${subject}` : subject), {
      className: 'whitespace-nowrap',
    }),
    moneyColumn('Revenue', 'revenueUsd'),
    moneyColumn('Cost', 'costUsd'),
    textColumn('Margin', (margin) => <MarginAmount margin={margin} />, { align: 'right' }),
  ]
}
