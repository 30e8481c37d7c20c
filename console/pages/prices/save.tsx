/** Confirms the changed prices and asks for a reason. */
import { count } from '../../../src/view/number.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { ReasonField } from '../../ui/reason-field.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import type { Change, changesOf } from './draft.ts'

interface SavePricesProps {
  readonly list: readonly Change[]
  readonly body: ReturnType<typeof changesOf>['body']
  readonly onSaved: () => void
  readonly onClose: () => void
}

const columns: ReadonlyArray<Column<Change>> = [
  { name: 'what', header: 'Row', cell: (change) => <span className="block min-w-52">{change.what}</span> },
  { name: 'before', header: 'Before', align: 'right', cell: (change) => change.before },
  {
    name: 'after',
    header: 'New',
    align: 'right',
    cell: (change) => <span className="font-medium">{change.after}</span>,
  },
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
        <Table label="Changes" columns={columns} rows={list} rowKey={(row) => row.key} empty={null} />
      </div>
      <ReasonField {...form.text('reason')} />
    </FormDialog>
  )
}
