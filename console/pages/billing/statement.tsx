/** Every change of the balance, newest first. */
import type { Reply } from '../../../src/client/client.ts'
import { parseUsd, zeroUsd } from '../../../src/base/money.ts'
import { exactMoney, signedMoney } from '../../../src/view/money.ts'
import { entryLabels } from '../../../src/view/ledger.ts'
import { badgeColumn, moneyColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { TextLink } from '../../ui/button.tsx'
import { cx } from '../../ui/class.ts'
import { Empty } from '../../ui/empty.tsx'
import { RentalLink } from '../rental/link.tsx'

type Line = Reply<'getStatement'>['lines'][number]

const PAGE_LINES = 50

const columns: Columns<Line> = [
  timeColumn('Time', 'at'),
  badgeColumn('Kind', ({ kind }) => entryLabels[kind]),
  textColumn('Description', (line) => <Description line={line} />),
  textColumn('Amount', ({ amountUsd }) => <Amount usd={amountUsd} />, { align: 'right' }),
  moneyColumn('Balance after', 'balanceAfterUsd', { wideOnly: true }),
]

export function Statement() {
  return (
    <PagedTable
      label="All changes"
      call="getStatement"
      pageRows={PAGE_LINES}
      rows={({ lines }) => lines}
      rowKey="id"
      columns={columns}
      empty={
        <Empty title="No transactions yet">Payments and charges for machines, volumes and models appear here.</Empty>
      }
    />
  )
}

function Description({ line }: { line: Line }) {
  return (
    <div className="min-w-48">
      {line.memo.charAt(0).toUpperCase() + line.memo.slice(1)}
      {line.rentalId !== null && (
        <>
          {' '}
          <RentalLink id={String(line.rentalId)} rental={line.rental} />
        </>
      )}
      {line.volumeId !== null && (
        <>
          {' '}
          <TextLink to="/volumes">{`Volume ${line.volumeId}`}</TextLink>
        </>
      )}
      {line.reason !== null && line.reason !== line.memo && <p className="text-muted">{line.reason}</p>}
    </div>
  )
}

export function Amount({ usd }: { usd: string }) {
  const isIn = (parseUsd(usd) ?? zeroUsd) > 0n
  return (
    <span className={cx('whitespace-nowrap', isIn && 'font-medium text-good')} title={exactMoney(usd)}>
      {signedMoney(usd)}
    </span>
  )
}
