/** Payouts to suppliers: what to look at, runs to approve, and what every supplier waits for. */
import type { Reply } from '../../../src/client/client.ts'
import { payoutBlockTexts, payoutRunLabels } from '../../../src/view/payout.ts'
import { localDate } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { CallButton } from '../../form/dialog.tsx'
import {
  actionsColumn,
  badgeColumn,
  dateColumn,
  moneyColumn,
  textColumn,
  timeColumn,
  type Columns,
} from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'
import { RunDialog } from './run.tsx'

type Listed = Reply<'listPayoutRuns'>
type Run = Listed['runs'][number]

/** Payouts of others raise no event here. */
const EVERY_MS = 30_000

const alertColumns: Columns<Listed['alerts'][number]> = [
  timeColumn('Time', 'at'),
  textColumn('Details', ({ subject, detail }) => (
    <div className="min-w-48 break-words">
      {detail}
      <p className="font-mono text-xs break-all text-muted">{subject}</p>
    </div>
  )),
  textColumn('Account', ({ accountId }) => accountId && <AccountLink id={accountId} name={accountId} />),
]

const supplierColumns: Columns<Listed['suppliers'][number]> = [
  textColumn('Supplier', ({ accountId, accountName }) => <AccountLink id={accountId} name={accountName} />),
  moneyColumn('Unpaid', 'unpaidUsd'),
  moneyColumn('Payable', 'payableUsd'),
  textColumn('To', 'to', { wideOnly: true }),
  textColumn('Waits', ({ blockedBy }) => blockedBy && payoutBlockTexts[blockedBy]),
]

function runColumns(open: (id: string) => void): Columns<Run> {
  return [
    dateColumn('Drafted', 'createdAt'),
    badgeColumn('State', ({ state }) => payoutRunLabels[state]),
    textColumn('Payouts', ({ payoutsTotal }) => payoutsTotal, { align: 'right' }),
    moneyColumn('Amount', 'amountUsd'),
    moneyColumn('Returned', 'returnedUsd', { wideOnly: true }),
    textColumn('Bank file', 'exportedAs', { wideOnly: true }),
    actionsColumn(({ id }) => (
      <Button look="quiet" aria-label={`Open ${id}`} onClick={() => open(id)}>
        Open
      </Button>
    )),
  ]
}

export function OperatorPayoutsPage() {
  const listed = useCall('listPayoutRuns', {}, { everyMs: EVERY_MS })
  const dialog = useDialog()
  const open = (id: string) => dialog.open((close) => <RunDialog id={id} onClose={close} />)
  return (
    <Page
      intro="Earnings of suppliers past the holdback. A draft moves nothing until you approve it."
      actions={
        <CallButton
          look="primary"
          operation="draftPayoutRun"
          input={{}}
          refreshes={['listPayoutRuns']}
          done="Payout run drafted"
        >
          Draft a run
        </CallButton>
      }
    >
      <Answer of={listed} skeleton={<Skeleton rows={8} />}>
        {({ alerts, runs, suppliers, nextRunAt }) => (
          <>
            {alerts.length > 0 && (
              <Card title="To look at">
                <Table label="To look at" rows={alerts} rowKey="subject" columns={alertColumns} empty={null} />
              </Card>
            )}
            <Card title="Runs">
              <Table
                label="Runs"
                rows={runs}
                rowKey="id"
                columns={runColumns(open)}
                empty={
                  <Empty title="No payout runs yet">
                    {nextRunAt === null
                      ? 'Draft one when suppliers are to be paid.'
                      : `The next one is drafted on ${localDate(nextRunAt)}.`}
                  </Empty>
                }
              />
            </Card>
            <Card title="Suppliers with unpaid earnings">
              <Table
                label="Suppliers with unpaid earnings"
                rows={suppliers}
                rowKey="accountId"
                columns={supplierColumns}
                empty={<p className="text-sm text-muted">Every supplier is paid.</p>}
              />
              {suppliers.length > 0 && <NextRun suppliers={suppliers} />}
            </Card>
          </>
        )}
      </Answer>
      {dialog.shown}
    </Page>
  )
}

function NextRun({ suppliers }: { suppliers: Listed['suppliers'] }) {
  const ready = suppliers.filter(({ blockedBy }) => blockedBy === null)
  return <p className="mt-3 text-sm text-muted">A run drafted now would pay {ready.length} of them.</p>
}

function AccountLink({ id, name }: { id: string; name: string }) {
  return (
    <TextLink to="/operator/accounts/$id" params={{ id }}>
      {name}
    </TextLink>
  )
}
