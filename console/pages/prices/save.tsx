/** Confirms the changed prices and asks for a reason. */
import { count } from '../../../src/view/number.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import type { Change, changesOf } from './draft.ts'

interface SavePricesProps {
  readonly list: readonly Change[]
  readonly body: ReturnType<typeof changesOf>['body']
  readonly onSaved: () => void
  readonly onClose: () => void
}

const columns: Columns<Change> = [
  textColumn('Row', 'what', { className: 'block min-w-52' }),
  textColumn('Before', 'before', { align: 'right' }),
  textColumn('New', 'after', { align: 'right', className: 'font-medium' }),
]

export function SavePricesDialog({ list, body, onSaved, onClose }: SavePricesProps) {
  const form = useCallForm('changePriceBook', {
    refreshes: ['getPriceBook', 'listRentalOptions', 'listStorageOptions', 'listReserveOptions', 'listAudit'],
    initial: { reason: '' },
    body: ({ reason }) => ({ ...body, reason }),
    onDone: () => {
      toast(`Saved ${count(list.length, 'change')}.`)
      onSaved()
    },
  })
  return (
    <FormDialog
      title={`Save ${count(list.length, 'change')}?`}
      wide
      form={form}
      action="Save"
      cancel="Continue editing"
      onClose={onClose}
    >
      <p className="text-sm text-muted">New rentals and volumes use the new prices. Current rentals keep theirs.</p>
      <div className="max-h-72 overflow-y-auto">
        <Table label="Changes" columns={columns} rows={list} rowKey="key" empty={null} />
      </div>
      <ReasonField {...form.text('reason')} />
    </FormDialog>
  )
}
