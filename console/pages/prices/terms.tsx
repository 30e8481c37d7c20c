/** Reserved terms and their discounts, for everyone or for one account. */
import { useState, type FormEvent } from 'react'
import { count, number } from '../../../src/view/number.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { TextField } from '../../ui/field.tsx'
import { Table } from '../../ui/table.tsx'
import { beforeColumn } from './column.tsx'
import { faultOfDiscount, termKey, type Draft, type DraftProps, type Term } from './draft.ts'

const MAX_DAYS = 3_650

/** `discountPercentage` is null for a new term, which only the draft has. */
type TermRow = Pick<Term, 'accountId' | 'termPeriodDays'> & { readonly discountPercentage: number | null }

export function TermPrices({ book, draft, onDraft }: DraftProps) {
  const bookKeys = new Set(book.reserveOptions.map(termKey))
  const fresh = Object.keys(draft.terms).filter((key) => !bookKeys.has(key))
  const rows: readonly TermRow[] = [...book.reserveOptions, ...fresh.map(newTerm)]
  const set = (key: string, discount: string): void => onDraft({ ...draft, terms: { ...draft.terms, [key]: discount } })
  return (
    <div className="flex flex-col gap-4">
      <Table
        label="Terms"
        columns={columnsWith(draft, set)}
        rows={rows}
        rowKey={termKey}
        empty="No terms yet. Machines can only be rented on demand."
      />
      <AddTerm usedKeys={new Set(rows.map(termKey))} onAdd={set} />
    </div>
  )
}

function columnsWith(draft: Draft, set: (key: string, discount: string) => void): Columns<TermRow> {
  return [
    textColumn('Term', ({ termPeriodDays }) => count(termPeriodDays, 'day')),
    textColumn('For', ({ accountId }) => accountId ?? 'Everyone'),
    {
      name: 'discount',
      header: 'Discount (%)',
      cell: (row) => {
        const key = termKey(row)
        const typed = draft.terms[key] ?? String(row.discountPercentage ?? '')
        return (
          <TextField
            label={`Discount of ${key} days (%)`}
            hideLabel
            inputMode="decimal"
            className="w-40"
            value={typed}
            onChange={(event) => set(key, event.target.value.trim())}
            error={faultOfDiscount(typed)}
          />
        )
      },
    },
    beforeColumn((row) => {
      if (draft.terms[termKey(row)] === undefined) return ''
      return row.discountPercentage === null ? 'new' : `${number(row.discountPercentage)}%`
    }),
  ]
}

function AddTerm({
  usedKeys,
  onAdd,
}: {
  usedKeys: ReadonlySet<string>
  onAdd: (key: string, discount: string) => void
}) {
  const [days, setDays] = useState('')
  const [accountId, setAccountId] = useState('')
  const [discount, setDiscount] = useState('')
  const [isChecked, setChecked] = useState(false)
  const wholeDays = /^\d{1,4}$/.test(days) ? Number.parseInt(days, 10) : 0
  const key = termKey({ accountId: accountId === '' ? null : accountId, termPeriodDays: wholeDays })
  const faults = {
    days: faultOfDays(wholeDays, usedKeys.has(key)),
    account: /^\S{0,50}$/.test(accountId) ? undefined : 'An ID has no spaces.',
    discount: faultOfDiscount(discount),
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (Object.values(faults).some((fault) => fault !== undefined)) return
    onAdd(key, discount)
    setDays('')
    setAccountId('')
    setDiscount('')
    setChecked(false)
  }
  return (
    <Card title="Add a term">
      <form onSubmit={submit} className="grid items-start gap-3 sm:grid-cols-4">
        <TextField
          label="Days"
          inputMode="numeric"
          value={days}
          onChange={(event) => setDays(event.target.value.trim())}
          error={isChecked ? faults.days : undefined}
        />
        <TextField
          label="Account ID"
          placeholder="Everyone"
          value={accountId}
          onChange={(event) => setAccountId(event.target.value.trim())}
          error={isChecked ? faults.account : undefined}
        />
        <TextField
          label="Discount (%)"
          inputMode="decimal"
          value={discount}
          onChange={(event) => setDiscount(event.target.value.trim())}
          error={isChecked ? faults.discount : undefined}
        />
        <Button type="submit" className="sm:mt-6">
          Add term
        </Button>
      </form>
    </Card>
  )
}

function newTerm(key: string): TermRow {
  const [accountId = '', days = ''] = key.split(' ')
  return {
    accountId: accountId === 'everyone' ? null : accountId,
    termPeriodDays: Number.parseInt(days, 10),
    discountPercentage: null,
  }
}

function faultOfDays(days: number, isTaken: boolean): string | undefined {
  if (days < 1 || days > MAX_DAYS) return `Enter a number from 1 to ${number(MAX_DAYS)}.`
  return isTaken ? 'This term exists; change it above.' : undefined
}
