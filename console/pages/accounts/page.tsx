/** Every account: who it is, what it has, how it stands. The interface lists them in pages; they are read to the end. */
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { ClientError } from '../../../src/client/error.ts'
import { count, number } from '../../../src/view/number.ts'
import { localDate } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { call } from '../../api/query.ts'
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
const PAGE_ROWS = 1_000
const MAX_PAGES = 20

interface AllAccounts {
  readonly accounts: readonly Account[]
  readonly isCut: boolean
}

export function AccountsPage() {
  const accounts = useQuery<AllAccounts, ClientError>({ queryKey: ['listAccounts', 'all'], queryFn: readAllAccounts })
  const [isOpening, setOpening] = useState(false)
  return (
    <Page
      intro="Customers and suppliers of this installation. Open one to give it money, change its quota or suspend it."
      actions={
        <Button look="primary" onClick={() => setOpening(true)}>
          Open an account
        </Button>
      }
    >
      <Filters />
      <Answer of={accounts} skeleton={<Skeleton rows={8} />}>
        {(all) => <Accounts all={all} />}
      </Answer>
      {isOpening && <OpenAccountDialog onClose={() => setOpening(false)} />}
    </Page>
  )
}

const standings = [
  { value: '', label: 'All' },
  { value: 'good', label: 'In good standing' },
  { value: 'suspended', label: 'Suspended' },
  { value: 'supplier', label: 'Suppliers' },
] as const

function Filters() {
  const { find = '', standing = '' } = route.useSearch()
  const navigate = route.useNavigate()
  return (
    <div className="flex flex-wrap gap-3">
      <TextField
        label="Search by name or id"
        type="search"
        className="w-full sm:w-72"
        value={find}
        onChange={(event) => {
          const text = event.target.value
          void navigate({ search: (old) => ({ ...old, find: text === '' ? undefined : text }), replace: true })
        }}
      />
      <SelectField
        label="Standing"
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
    header: 'Id',
    width: 'minmax(0, 2fr)',
    cell: (account) => <code className="font-mono text-xs text-muted">{account.id}</code>,
  },
  { name: 'standing', header: 'Standing', cell: (account) => <StandingBadge account={account} /> },
  { name: 'balance', header: 'Balance', align: 'right', cell: (account) => money(account.balanceUsd) },
  { name: 'held', header: 'On hold', align: 'right', cell: (account) => money(account.heldUsd) },
  {
    name: 'earnings',
    header: 'Earnings',
    align: 'right',
    cell: (account) => (account.supplier ? money(account.earningsUsd) : '—'),
  },
  { name: 'opened', header: 'Opened', align: 'right', cell: (account) => localDate(account.createdAt) },
]

function Accounts({ all }: { all: AllAccounts }) {
  const { find = '', standing } = route.useSearch()
  const words = find.trim().toLowerCase()
  const shown = all.accounts.filter(
    (account) =>
      `${account.name} ${account.id}`.toLowerCase().includes(words) &&
      (standing === undefined ||
        (standing === 'supplier' ? account.supplier : account.suspended === (standing === 'suspended'))),
  )
  return (
    <div className="flex flex-col gap-2">
      <p className="text-sm text-muted" role="status">
        {shown.length === all.accounts.length
          ? count(shown.length, 'account')
          : `${number(shown.length)} of ${count(all.accounts.length, 'account')}`}
        {all.isCut && `; there are more than ${number(PAGE_ROWS * MAX_PAGES)}, and these are the first`}
      </p>
      <VirtualTable
        label="Accounts"
        columns={columns}
        rows={shown}
        rowKey={(account) => account.id}
        empty={<Empty title="No account is like that">Search for less, or choose another standing.</Empty>}
      />
    </div>
  )
}

async function readAllAccounts({ signal }: { signal: AbortSignal }): Promise<AllAccounts> {
  const accounts: Account[] = []
  let cursor: string | undefined
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const query = { limit: PAGE_ROWS, ...(cursor === undefined ? {} : { cursor }) }
    const reply = await call('listAccounts', { query, signal })
    accounts.push(...reply.accounts)
    if (reply.nextCursor === null) return { accounts, isCut: false }
    cursor = reply.nextCursor
  }
  return { accounts, isCut: true }
}
