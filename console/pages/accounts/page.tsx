/** All accounts, in pages. The server searches and filters. */
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { localDate } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { optionalText } from '../../form/read.ts'
import { PAGE_ROWS, Pager, usePages } from '../../ui/pager.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { VirtualTable, type Column } from '../../ui/table.tsx'
import { StandingBadge, type Account } from '../account/record.tsx'
import { OpenAccountDialog } from './open.tsx'

const route = getRouteApi('/shell/operator/accounts')
export function AccountsPage() {
  const [isOpening, setOpening] = useState(false)
  return (
    <Page
      intro="Customers and suppliers of this installation. Select one to add money, change its quota or suspend it."
      actions={
        <Button look="primary" onClick={() => setOpening(true)}>
          Create account
        </Button>
      }
    >
      <Filters />
      <Accounts />
      {isOpening && <OpenAccountDialog onClose={() => setOpening(false)} />}
    </Page>
  )
}

const standings = [
  { value: '', label: 'All' },
  { value: 'good', label: 'Active' },
  { value: 'suspended', label: 'Suspended' },
  { value: 'supplier', label: 'Suppliers' },
] as const

function Filters() {
  const { find = '', standing = '' } = route.useSearch()
  const navigate = route.useNavigate()
  return (
    <div className="flex flex-wrap gap-3">
      <TextField
        label="Search by name or ID"
        type="search"
        className="w-full sm:w-72"
        value={find}
        onChange={(event) => {
          const text = event.target.value
          void navigate({ search: (old) => ({ ...old, find: text === '' ? undefined : text }), replace: true })
        }}
      />
      <SelectField
        label="Status"
        className="w-full sm:w-48"
        choices={standings}
        value={standing}
        onChange={(event) => {
          const chosen = standings.find(({ value }) => value === event.target.value)?.value
          void navigate({ search: (old) => ({ ...old, standing: chosen === '' ? undefined : chosen }), replace: true })
        }}
      />
    </div>
  )
}

const columns: ReadonlyArray<Column<Account>> = [
  {
    name: 'name',
    header: 'Account',
    width: 'minmax(0, 2fr)',
    cell: (account) => (
      <TextLink to="/operator/accounts/$id" params={{ id: account.id }}>
        {account.name}
      </TextLink>
    ),
  },
  {
    name: 'id',
    header: 'ID',
    width: 'minmax(0, 2fr)',
    cell: (account) => <code className="font-mono text-xs text-muted">{account.id}</code>,
  },
  { name: 'standing', header: 'Status', cell: (account) => <StandingBadge account={account} /> },
  { name: 'balance', header: 'Balance', align: 'right', cell: (account) => money(account.balanceUsd) },
  { name: 'held', header: 'On hold', align: 'right', cell: (account) => money(account.heldUsd) },
  {
    name: 'earnings',
    header: 'Earnings',
    align: 'right',
    cell: (account) => (account.supplier ? money(account.earningsUsd) : '—'),
  },
  {
    name: 'opened',
    header: 'Created',
    width: '7.5rem',
    align: 'right',
    cell: (account) => localDate(account.createdAt),
  },
]

function Accounts() {
  const { find = '', standing } = route.useSearch()
  const pages = usePages(JSON.stringify([find, standing]))
  const accounts = useCall(
    'listAccounts',
    {
      query: {
        limit: PAGE_ROWS,
        cursor: pages.cursor,
        q: optionalText(find),
        supplier: standing === 'supplier' ? true : undefined,
        suspended: standing === undefined || standing === 'supplier' ? undefined : standing === 'suspended',
      },
    },
    { keepsLast: true },
  )
  return (
    <Answer of={accounts} skeleton={<Skeleton rows={8} />}>
      {({ accounts: rows, nextCursor }) => (
        <div>
          <VirtualTable
            label="Accounts"
            columns={columns}
            rows={rows}
            rowKey={(account) => account.id}
            empty={<Empty title="No accounts match">Change the search text or the status.</Empty>}
          />
          <Pager pages={pages} nextCursor={nextCursor} />
        </div>
      )}
    </Answer>
  )
}
