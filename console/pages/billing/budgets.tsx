/** Monthly budgets, with what is spent of each. */
import type { Reply } from '../../../src/client/client.ts'
import type { BudgetAction, BudgetScope } from '../../../src/contract/budget.ts'
import { exactMoney, money } from '../../../src/view/money.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { CallDialog, ConfirmCall } from '../../form/dialog.tsx'
import type { Form } from '../../form/use-form.ts'
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

interface Values {
  readonly name: string
  readonly monthlyUsd: string
  readonly alerts: string
  readonly action: string
}

function BudgetFields({ form }: { form: Pick<Form<Values>, 'text' | 'values'> }) {
  const hint = actions.find(({ value }) => value === form.values.action)?.hint
  return (
    <>
      <TextField label="Name" maxLength={255} {...form.text('name')} />
      <TextField label="Monthly amount (USD)" inputMode="decimal" placeholder="500.00" {...form.text('monthlyUsd')} />
      <TextField label="Alert at (%)" hint="Percentages, separated by commas." {...form.text('alerts')} />
      <SelectField label="At 100%" choices={actions} hint={hint} {...form.text('action')} />
    </>
  )
}

function bodyOf({ name, monthlyUsd, alerts, action }: Values) {
  const alertsPercent = alerts
    .split(',')
    .map((text) => text.trim())
    .filter((text) => text !== '')
    .map((text) => (/^\d{1,4}$/.test(text) ? Number.parseInt(text, 10) : 0))
  return { name: name.trim(), monthlyUsd: monthlyUsd.trim(), alertsPercent, action: action as BudgetAction }
}

const paths = { alerts: 'alertsPercent' } as const
const refreshes = ['listBudgets'] as const

function CreateDialog({ onClose }: { onClose: () => void }) {
  return (
    <CallDialog
      operation="createBudget"
      refreshes={refreshes}
      title="Add budget"
      action="Add budget"
      initial={{ name: '', monthlyUsd: '', alerts: '50, 80, 100', action: 'alert', scope: 'account', scopeValue: '' }}
      paths={paths}
      body={({ scope, scopeValue, ...values }) => ({
        ...bodyOf(values),
        scope: scope as BudgetScope,
        ...(scope === 'account' ? {} : { scopeValue }),
      })}
      done={({ name }) => `Added ${name}`}
      onClose={onClose}
    >
      {(form) => (
        <>
          <BudgetFields form={form} />
          <SelectField label="For" choices={scopes} {...form.text('scope')} />
          {form.values.scope === 'label' && <TextField label="Label" {...form.text('scopeValue')} />}
          {form.values.scope === 'key' && <KeyField form={form} />}
        </>
      )}
    </CallDialog>
  )
}

/** A list of keys where the key may read it, or its ID. */
function KeyField({ form }: { form: Pick<Form<{ readonly scopeValue: string }>, 'text'> }) {
  const mayList = useMay('keys')
  const { data } = useCall('listApiKeys', {}, { enabled: mayList })
  if (data === undefined) return <TextField label="Public ID of the key" {...form.text('scopeValue')} />
  const keys = data.apiKeys.filter(({ revokedAt }) => revokedAt === null)
  const choices = keys.map(({ publicId, name, last4 }) => ({ value: publicId, label: `${name} (…${last4})` }))
  return (
    <SelectField
      label="API key"
      choices={[{ value: '', label: 'Choose a key', disabled: true }, ...choices]}
      {...form.text('scopeValue')}
    />
  )
}

function ChangeDialog({ budget, onClose }: { budget: Budget; onClose: () => void }) {
  const { name, monthlyUsd, action } = budget
  return (
    <CallDialog
      operation="changeBudget"
      input={{ params: { id: budget.id } }}
      refreshes={refreshes}
      title={`Change ${name}`}
      action="Save"
      initial={{ name, monthlyUsd: monthlyUsd.replace(/\.?0+$/, ''), alerts: budget.alertsPercent.join(', '), action }}
      paths={paths}
      body={bodyOf}
      disabledReason="unchanged"
      done={(changed) => `Changed ${changed.name}`}
      onClose={onClose}
    >
      {(form) => <BudgetFields form={form} />}
    </CallDialog>
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
