/** What will be changed, old and new side by side, and why. */
import { useState, type FormEvent } from 'react'
import { count } from '../../../src/view/number.ts'
import { useAction } from '../../api/query.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import { faultOfReason } from '../account/quota.tsx'
import type { Change, changesOf } from './draft.ts'

interface SavePricesProps {
  readonly list: readonly Change[]
  readonly body: ReturnType<typeof changesOf>['body']
  readonly onSaved: () => void
  readonly onClose: () => void
}

const columns: ReadonlyArray<Column<Change>> = [
  { name: 'what', header: 'Row', cell: (change) => <span className="block min-w-52">{change.what}</span> },
  { name: 'before', header: 'Now', align: 'right', cell: (change) => change.before },
  {
    name: 'after',
    header: 'New',
    align: 'right',
    cell: (change) => <span className="font-medium">{change.after}</span>,
  },
]

export function SavePricesDialog({ list, body, onSaved, onClose }: SavePricesProps) {
  const [reason, setReason] = useState('')
  const [isChecked, setChecked] = useState(false)
  const change = useAction('changePriceBook', [
    'getPriceBook',
    'listRentalOptions',
    'listStorageOptions',
    'listReserveOptions',
    'listAudit',
  ])
  const fault = faultOfReason(reason)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (fault !== undefined) return
    change.mutate(
      { body: { ...body, reason } },
      {
        onSuccess: () => {
          toast(`${count(list.length, 'change')} saved.`)
          onSaved()
        },
      },
    )
  }
  return (
    <Dialog title={`Save ${count(list.length, 'change')}?`} wide onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <p className="text-sm text-muted">New rentals and volumes pay the new price. Rentals that run keep theirs.</p>
        <div className="max-h-72 overflow-y-auto">
          <Table label="Changes" columns={columns} rows={list} rowKey={(row) => row.key} empty={null} />
        </div>
        <ReasonField value={reason} onChange={setReason} error={isChecked ? fault : undefined} />
        {change.error !== null && <ErrorNotice error={change.error} />}
        <DialogButtons>
          <CancelButton onClick={onClose}>Go on editing</CancelButton>
          <SubmitButton busy={change.isPending}>Save</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}
