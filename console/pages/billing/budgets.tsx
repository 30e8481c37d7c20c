/** Monthly budgets, and how much of each is spent. */
import type { Reply } from '../../../src/client/client.ts'
import type { BudgetAction, BudgetScope } from '../../../src/contract/budget.ts'
import { exactMoney, money } from '../../../src/view/money.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import type { ControlProps } from '../../form/entry.ts'
import { actionsColumn, badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Button } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'

type Budget = Reply<'listBudgets'>['budgets'][number]

/** Costs raise no event. */
const BUDGETS_EVERY_MS = 60_000

const scopes: ReadonlyArray<{ value: BudgetScope; label: string }> = [
  { value: 'account', label: 'Whole account' },
  { value: 'label', label: 'A label' },
  { value: 'key', label: 'An API key' },
]

const actions: ReadonlyArray<{ value: BudgetAction; label: string; hint: string }> = [
  { value: 'alert', label: 'Only alert', hint: 'Everything continues.' },
  { value: 'block', label: 'Block new spending', hint: 'Rejects new orders and, for the whole account, inference.' },
  { value: 'stop', label: 'Block and stop rentals', hint: 'Also stops on-demand rentals; their disks are kept.' },
  {
    value: 'terminate',
    label: 'Block, stop or terminate rentals',
    hint: 'Also terminates on-demand rentals that cannot be stopped. Their disks are deleted.',
  },
]

export function Budgets() {
  const mayManage = useMay('billing:write')
  const dialog = useDialog()
  const disabledReason = mayManage ? undefined : missingScope('billing:write')
  const create = (
    <Button
      look="primary"
      disabledReason={disabledReason}
      onClick={() => dialog.open((close) => <CreateDialog onClose={close} />)}
    >
      Add budget
    </Button>
  )
  const columns: Columns<Budget> = [
    textColumn('Budget', ({ name, scope, scopeValue }) => (
      <div className="min-w-32">
        {name}
        <p className="text-muted">{scope === 'account' ? 'Whole account' : `${scope} ${scopeValue ?? ''}`}</p>
      </div>
    )),
    textColumn('Spent this month', (budget) => <Spent budget={budget} />),
    badgeColumn('State', stateOf),
    textColumn('At 100%', ({ action }) => actions.find(({ value }) => value === action)?.label ?? action, {
      wideOnly: true,
    }),
    actionsColumn((budget) => (
      <>
        <Button
          look="quiet"
          aria-label={`Change ${budget.name}`}
          disabledReason={disabledReason}
          onClick={() => dialog.open((close) => <ChangeDialog budget={budget} onClose={close} />)}
        >
          Change
        </Button>
        <Button
          look="quiet"
          aria-label={`Delete ${budget.name}`}
          disabledReason={disabledReason}
          onClick={() => dialog.open((close) => <DeleteDialog budget={budget} onClose={close} />)}
        >
          Delete
        </Button>
      </>
    )),
  ]
  return (
    <div className="flex flex-col gap-4">
      <div className="flex justify-end">{create}</div>
      <ListTable
        label="Budgets"
        call="listBudgets"
        rows={({ budgets }) => budgets}
        rowKey="id"
        everyMs={BUDGETS_EVERY_MS}
        columns={columns}
        empty={
          <Empty title="No budgets yet">
            A budget alerts you at 50%, 80% and 100% of a monthly amount, and can stop spending at 100%.
          </Empty>
        }
      />
      {dialog.shown}
    </div>
  )
}

function stateOf({ blocks, exceededAt, spentPercent, alertsPercent }: Budget) {
  if (blocks) return ['Blocking', 'bad'] as const
  if (exceededAt !== null) return ['Exceeded', 'bad'] as const
  return alertsPercent.some((percent) => spentPercent >= percent)
    ? (['Alert', 'warn'] as const)
    : (['OK', 'good'] as const)
}

function Spent({ budget }: { budget: Budget }) {
  const { spentUsd, monthlyUsd, spentPercent } = budget
  return (
    <div className="min-w-40">
      <span title={exactMoney(spentUsd)}>{money(spentUsd)}</span> of {money(monthlyUsd)} (
      {spentPercent > 999 ? 'over 999' : spentPercent}%)
      <div aria-hidden="true" className="mt-1 h-2 rounded-xs bg-sunken">
        <div className="h-full rounded-xs bg-accent" style={{ width: `${Math.min(100, spentPercent)}%` }} />
      </div>
    </div>
  )
}

const refreshes = ['listBudgets'] as const
const common = ['name', 'monthlyUsd', 'alertsPercent', ['action', { choices: actions }]] as const

function CreateDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="createBudget"
      refreshes={refreshes}
      title="Add budget"
      action="Add budget"
      initial={{ alertsPercent: '50, 80, 100' }}
      fields={({ scope }) => [
        ...common,
        ['scope', { choices: scopes, hint: null }],
        scope === 'label' && ['scopeValue', { label: 'Label', hint: null }],
        scope === 'key' && ['scopeValue', { hint: null, as: KeyField }],
      ]}
      done={({ name }) => `Added ${name}`}
      onClose={onClose}
    />
  )
}

/** A choice of keys if the list may be read; otherwise a field for the ID. */
function KeyField(props: ControlProps) {
  const mayList = useMay('keys')
  const { data } = useCall('listApiKeys', {}, { enabled: mayList })
  if (data === undefined) return <TextField {...props} label="Public ID of the key" />
  const keys = data.apiKeys.filter(({ revokedAt }) => revokedAt === null)
  const choices = keys.map(({ publicId, name, last4 }) => ({ value: publicId, label: `${name} (…${last4})` }))
  return (
    <SelectField
      {...props}
      label="API key"
      choices={[{ value: '', label: 'Choose a key', disabled: true }, ...choices]}
    />
  )
}

function ChangeDialog({ budget, onClose }: { budget: Budget; onClose: () => void }) {
  return (
    <FieldDialog
      operation="changeBudget"
      input={{ params: { id: budget.id } }}
      refreshes={refreshes}
      title={`Change ${budget.name}`}
      action="Save"
      before={budget}
      fields={common}
      done={({ name }) => `Changed ${name}`}
      onClose={onClose}
    />
  )
}

function DeleteDialog({ budget, onClose }: { budget: Budget; onClose: () => void }) {
  return (
    <ConfirmCall
      operation="deleteBudget"
      input={{ params: { id: budget.id } }}
      refreshes={refreshes}
      title={`Delete ${budget.name}?`}
      action="Delete budget"
      done={`Deleted ${budget.name}`}
      onClose={onClose}
    >
      Its alerts end, and what it blocks is allowed again.
    </ConfirmCall>
  )
}
