/** Every change of the balance, newest first. */
import type { Reply } from '../../../src/client/client.ts'
import { parseUsd, zeroUsd } from '../../../src/base/money.ts'
import { localTime } from '../../../src/view/time.ts'
import { exactMoney, signedMoney } from '../../../src/view/money.ts'
import { entryLabels } from '../../../src/view/ledger.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { TextLink } from '../../ui/button.tsx'
import { cx } from '../../ui/class.ts'
import { Empty } from '../../ui/empty.tsx'
import { Pager, usePages } from '../../ui/pager.tsx'
import { RentalLink } from '../rental/link.tsx'
import { Money } from '../../ui/money.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'

type Line = Reply<'getStatement'>['lines'][number]

const PAGE_LINES = 50

const columns: ReadonlyArray<Column<Line>> = [
  { name: 'at', header: 'Time', cell: (line) => <span className="whitespace-nowrap">{localTime(line.at)}</span> },
  { name: 'kind', header: 'Kind', cell: (line) => <EntryBadge kind={line.kind} /> },
  { name: 'memo', header: 'Description', cell: (line) => <Description line={line} /> },
  { name: 'amount', header: 'Amount', align: 'right', cell: (line) => <Amount usd={line.amountUsd} /> },
  {
    name: 'after',
    header: 'Balance after',
    align: 'right',
    wideOnly: true,
    cell: (line) => <Money usd={line.balanceAfterUsd} />,
  },
]

export function Statement() {
  const pages = usePages()
  const { cursor } = pages
  const statement = useCall('getStatement', {
    query: { limit: PAGE_LINES, ...(cursor === undefined ? {} : { cursor }) },
  })
  return (
    <Answer of={statement} skeleton={<Skeleton rows={8} />}>
      {({ lines, nextCursor }) => (
        <>
          <Table
            label="Statement"
            columns={columns}
            rows={lines}
            rowKey={(line) => line.id}
            empty={
              <Empty title="No transactions yet">
                Payments and charges for machines, volumes and models appear here.
              </Empty>
            }
          />
          <Pager pages={pages} nextCursor={nextCursor} />
        </>
      )}
    </Answer>
  )
}

function EntryBadge({ kind }: { kind: Line['kind'] }) {
  const [label, tone] = entryLabels[kind]
  return <Badge tone={tone}>{label}</Badge>
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

function Amount({ usd }: { usd: string }) {
  const isIn = (parseUsd(usd) ?? zeroUsd) > 0n
  return (
    <span className={cx('whitespace-nowrap', isIn && 'font-medium text-good')} title={exactMoney(usd)}>
      {signedMoney(usd)}
    </span>
  )
}
