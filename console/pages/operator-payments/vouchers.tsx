/** Vouchers: creating one, whose code is shown once, and revoking it. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { voucherState, voucherUses } from '../../../src/view/credit.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionsColumn, badgeColumn, moneyColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Notice } from '../../ui/notice.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

type Voucher = Reply<'listVouchers'>['vouchers'][number]

const refreshes = ['listVouchers', 'listAudit'] as const

export function Vouchers() {
  const vouchers = useCall('listVouchers')
  const [code, setCode] = useState<string>()
  const dialog = useDialog()
  const now = useNow()
  const columns: Columns<Voucher> = [
    timeColumn('Created', 'createdAt'),
    textColumn('Code', ({ codeEnd }) => <span className="font-mono text-xs">…{codeEnd}</span>),
    badgeColumn('State', (voucher) => voucherState(voucher, now)),
    moneyColumn('Credit', 'amountUsd'),
    textColumn('Used', voucherUses),
    textColumn('Note', 'note', { wideOnly: true }),
    actionsColumn(
      (voucher) =>
        voucher.revokedAt === null && (
          <Button
            look="quiet"
            aria-label={`Revoke the voucher …${voucher.codeEnd}`}
            onClick={() => dialog.open((close) => <RevokeDialog voucher={voucher} onClose={close} />)}
          >
            Revoke
          </Button>
        ),
    ),
  ]
  const add = (
    <Button onClick={() => dialog.open((close) => <AddDialog onCode={setCode} onClose={close} />)}>
      Create a voucher
    </Button>
  )
  return (
    <Card title="Vouchers" actions={add}>
      <div className="flex flex-col gap-3">
        {code !== undefined && (
          <Notice tone="info">
            <p className="mb-2">Save the code now: it is not shown again.</p>
            <CopyLine label="Voucher code" text={code} />
            <CopyLine label="Link" text={`${location.origin}/billing?voucher=${code}`} />
          </Notice>
        )}
        <Answer of={vouchers} skeleton={<Skeleton rows={2} />}>
          {({ vouchers: rows }) => (
            <Table
              label="Vouchers"
              rows={rows}
              rowKey="id"
              columns={columns}
              empty={<p className="text-sm text-muted">No vouchers yet.</p>}
            />
          )}
        </Answer>
      </div>
      {dialog.shown}
    </Card>
  )
}

function AddDialog({ onCode, onClose }: { onCode: (code: string) => void; onClose: () => void }) {
  return (
    <FieldDialog
      operation="createVoucher"
      refreshes={refreshes}
      title="Create a voucher"
      action="Create voucher"
      initial={{ amountUsd: '25', uses: '1', usesPerAccount: '1' }}
      fields={['amountUsd', 'uses', 'usesPerAccount', 'creditDays', 'note']}
      onDone={({ code }) => {
        onCode(code)
        onClose()
      }}
      onClose={onClose}
    />
  )
}

function RevokeDialog({ voucher, onClose }: { voucher: Voucher; onClose: () => void }) {
  return (
    <ConfirmCall
      operation="revokeVoucher"
      input={{ params: { id: voucher.id } }}
      refreshes={refreshes}
      title={`Revoke the voucher …${voucher.codeEnd}?`}
      action="Revoke"
      done={`Revoked the voucher …${voucher.codeEnd}`}
      onClose={onClose}
    >
      Nobody can redeem it any more. Credit that was redeemed stays.
    </ConfirmCall>
  )
}
