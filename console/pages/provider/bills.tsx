/** Imported bills of the cloud, compared with the recorded costs. */
import { getRouteApi } from '@tanstack/react-router'
import { formatDay, instantOf } from '../../../src/base/instant.ts'
import type { Reply } from '../../../src/client/client.ts'
import { money } from '../../../src/view/money.ts'
import { count } from '../../../src/view/number.ts'
import { describeGoods, billedText, billPeriod, recordedText, type Provider } from '../../../src/view/provider.ts'
import { useCall } from '../../api/query.ts'
import { actionColumn, dateColumn, moneyColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Card } from '../../ui/card.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

const route = getRouteApi('/shell/operator/providers/$name')

type Bill = Reply<'listProviderBills'>['bills'][number]
type Comparison = Reply<'getProviderBill'>

export function ProviderBills({ account: { name } }: { account: Provider }) {
  const { bill } = route.useSearch()
  const navigate = route.useNavigate()
  const today = formatDay(instantOf(useNow()))
  const choose = ({ id }: Bill): void => void navigate({ search: { tab: 'bills', bill: id }, replace: true })
  return (
    <div className="flex flex-col gap-4">
      <ListTable
        label="Imported bills"
        call="listProviderBills"
        input={{ params: { name } }}
        rows={({ bills }) => bills}
        rowKey="id"
        columns={[...columns, actionColumn('Compare', ({ label }) => label, choose)]}
        empty={
          <Empty title="No bills imported">
            Import an invoice or usage list of the cloud to compare it with the recorded costs.
          </Empty>
        }
      />
      {bill !== undefined && <ComparedBill name={name} id={bill} />}
      <Card title="Import a bill">
        <p className="mb-2 text-sm text-muted">
          A CSV file with lines of machine,amount: the id at the cloud, and USD. Without days, whole machines are
          compared.
        </p>
        <CodeBlock
          label="Command to import a bill"
          code={`berth operator providers import ${name} bill.csv --from ${today.slice(0, 7)}-01 --to ${today}`}
        />
      </Card>
    </div>
  )
}

const columns: Columns<Bill> = [
  textColumn('Bill', ({ label, id }) => (
    <div>
      <div className="font-medium break-words">{label}</div>
      <div className="font-mono text-xs text-muted">{id}</div>
    </div>
  )),
  textColumn('Period (UTC)', billPeriod, { className: 'whitespace-nowrap' }),
  numberColumn('Machines', 'lines', { wideOnly: true }),
  moneyColumn('Billed', 'billedUsd'),
  dateColumn('Imported', 'importedAt', { wideOnly: true }),
]

function ComparedBill({ name, id }: { name: string; id: string }) {
  const compared = useCall('getProviderBill', { params: { name, id } })
  return (
    <Card title="Differences">
      <Answer of={compared} skeleton={<Skeleton rows={4} />}>
        {(comparison) => <Differences comparison={comparison} />}
      </Answer>
    </Card>
  )
}

function Differences({ comparison }: { comparison: Comparison }) {
  const { bill, billedUsd, recordedUsd, differences, differencesTotal } = comparison
  const hidden = differencesTotal - differences.length
  return (
    <div className="flex flex-col gap-3">
      <p className="flex flex-wrap items-center gap-2 text-sm" role="status">
        {differencesTotal === 0 ? (
          <Badge tone="good">no differences</Badge>
        ) : (
          <Badge tone="warn">{count(differencesTotal, 'difference')}</Badge>
        )}
        {bill.label}: billed {money(billedUsd)}, recorded {money(recordedUsd)}.
      </p>
      <Table
        label="Differences"
        columns={differenceColumns}
        rows={differences}
        rowKey="machine"
        empty="The bill matches what is recorded."
      />
      {hidden > 0 && <p className="text-sm text-muted">{count(hidden, 'smaller difference')} not shown.</p>}
    </div>
  )
}

const differenceColumns: Columns<Comparison['differences'][number]> = [
  textColumn('Machine', 'machine', { className: 'font-mono text-xs break-all' }),
  textColumn('For', (one) => describeGoods(one) ?? null, { className: 'whitespace-nowrap' }),
  textColumn('Billed', billedText, { align: 'right' }),
  textColumn('Recorded', recordedText, { align: 'right' }),
  moneyColumn('Difference', 'differenceUsd'),
]
