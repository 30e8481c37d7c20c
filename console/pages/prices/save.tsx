/** Confirms the changed prices and asks for a reason. */
import { count } from '../../../src/view/number.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { Table } from '../../ui/table.tsx'
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
  return (
    <FieldDialog
      operation="changePriceBook"
      refreshes={['getPriceBook', 'listRentalOptions', 'listStorageOptions', 'listReserveOptions', 'listAudit']}
      title={`Save ${count(list.length, 'change')}?`}
      wide
      action="Save"
      cancel="Continue editing"
      fields={['reason']}
      body={(typed) => ({ ...body, ...typed })}
      done={`Saved ${count(list.length, 'change')}.`}
      onDone={onSaved}
      onClose={onClose}
    >
      <p className="text-sm text-muted">New rentals and volumes use the new prices. Current rentals keep theirs.</p>
      <div className="max-h-72 overflow-y-auto">
        <Table label="Changes" columns={columns} rows={list} rowKey="key" empty={null} />
      </div>
    </FieldDialog>
  )
}
