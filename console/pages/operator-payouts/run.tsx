/** One payout run: its payouts, and the next step, which depends on where it is. */
import type { Reply } from '../../../src/client/client.ts'
import { money } from '../../../src/view/money.ts'
import { payoutDetail, payoutLabel, payoutRunLabels } from '../../../src/view/payout.ts'
import { localTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { badgeColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Facts, type Fact } from '../../ui/card.tsx'
import { Dialog, DialogButtons, useDialog } from '../../ui/dialog.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

type Run = Reply<'getPayoutRun'>
type Payout = Run['payouts'][number]

const refreshes = ['getPayoutRun', 'listPayoutRuns', 'getAccount', 'listAudit'] as const

export function RunDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const run = useCall('getPayoutRun', { params: { id } })
  const dialog = useDialog()
  return (
    <>
      <Dialog title="Payout run" wide onClose={onClose}>
        <Answer of={run} skeleton={<Skeleton rows={6} />}>
          {(value) => <Content run={value} onOpen={dialog.open} />}
        </Answer>
      </Dialog>
      {dialog.shown}
    </>
  )
}

type Open = ReturnType<typeof useDialog>['open']

function Content({ run, onOpen }: { run: Run; onOpen: Open }) {
  const columns: Columns<Payout> = [
    textColumn('Supplier', 'accountName'),
    badgeColumn('State', payoutLabel),
    moneyColumn('Amount', 'amountUsd'),
    textColumn('To', (payout) => (
      <div className="min-w-24">
        {payout.to}
        <p className="text-muted">{payoutDetail(payout)}</p>
      </div>
    )),
  ]
  const facts: Fact[] = [
    ['State', payoutRunLabels[run.state][0]],
    ['Amount', money(run.amountUsd)],
    ['Earned before', localTime(run.until)],
    ...(run.exportedAs === null ? [] : [['Bank file', run.exportedAs] as const]),
  ]
  return (
    <div className="flex flex-col gap-4">
      <Facts facts={facts} />
      <Table label="Payouts of the run" rows={run.payouts} rowKey="id" columns={columns} empty={null} />
      <DialogButtons>
        <Steps run={run} onOpen={onOpen} />
      </DialogButtons>
    </div>
  )
}

function Steps({ run, onOpen }: { run: Run; onOpen: Open }) {
  const { state, payouts, exportedAt } = run
  const byBank = payouts.filter(({ kind }) => kind === 'bank')
  return (
    <>
      {state === 'draft' && (
        <>
          <Button onClick={() => onOpen((close) => <CancelDialog run={run} onClose={close} />)}>Cancel run</Button>
          <Button look="primary" onClick={() => onOpen((close) => <ApproveDialog run={run} onClose={close} />)}>
            Approve
          </Button>
        </>
      )}
      {exportedAt === null && byBank.some((payout) => payout.state === 'approved') && (
        <Button look="primary" onClick={() => onOpen((close) => <ExportDialog run={run} onClose={close} />)}>
          Export bank file
        </Button>
      )}
      {byBank.some((payout) => payout.state === 'sent' || payout.state === 'paid') && (
        <Button onClick={() => onOpen((close) => <SettleDialog run={run} onClose={close} />)}>Settle</Button>
      )}
    </>
  )
}

interface StepProps {
  readonly run: Run
  readonly onClose: () => void
}

function ApproveDialog({ run, onClose }: StepProps) {
  return (
    <ConfirmCall
      operation="approvePayoutRun"
      input={{ params: { id: run.id } }}
      refreshes={refreshes}
      title={`Pay ${money(run.amountUsd)}?`}
      action="Approve run"
      done="Payout run approved"
      onClose={onClose}
    >
      It takes the earnings. Transfers through Stripe follow by themselves; for the others, export the bank file.
    </ConfirmCall>
  )
}

function CancelDialog({ run, onClose }: StepProps) {
  return (
    <ConfirmCall
      operation="cancelPayoutRun"
      input={{ params: { id: run.id } }}
      refreshes={refreshes}
      title="Cancel this run?"
      action="Cancel run"
      done="Payout run canceled"
      onClose={onClose}
    >
      Nothing was moved. The earnings are in the next run.
    </ConfirmCall>
  )
}

function ExportDialog({ run, onClose }: StepProps) {
  return (
    <FieldDialog
      operation="exportPayoutRun"
      input={{ params: { id: run.id } }}
      refreshes={refreshes}
      title="Export bank file"
      action="Export once"
      fields={['format', 'eurRate']}
      done={({ currency, total }) => `Exported ${currency} ${total}`}
      onDone={(file) => {
        save(file)
        onClose()
      }}
      onClose={onClose}
    >
      <p className="text-sm text-muted">A second file would pay everybody twice, so there is none: keep it.</p>
    </FieldDialog>
  )
}

function SettleDialog({ run, onClose }: StepProps) {
  return (
    <FieldDialog
      operation="settlePayoutRun"
      input={{ params: { id: run.id } }}
      refreshes={refreshes}
      title="Settle bank transfers"
      action="Settle"
      fields={['outcome', 'payoutIds', ['reason', { as: 'block' }]]}
      done="Payouts settled"
      onClose={onClose}
    >
      <p className="text-sm text-muted">“failed” puts the money into the earnings again, also after “paid”.</p>
    </FieldDialog>
  )
}

/** The browser saves it like a download. */
function save({ fileName, text }: Reply<'exportPayoutRun'>): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }))
  const link = Object.assign(document.createElement('a'), { href: url, download: fileName })
  link.click()
  URL.revokeObjectURL(url)
}
