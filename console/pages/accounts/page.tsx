/** All accounts, in pages. The server searches and filters. */
import { getRouteApi } from '@tanstack/react-router'
import { optionalText } from '../../form/read.ts'
import { choicesIn, FilterBar } from '../../list/filter.tsx'
import { dateColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { StandingBadge, type Account } from '../account/record.tsx'
import { OpenAccountDialog } from './open.tsx'

const route = getRouteApi('/shell/operator/accounts')

const standings = choicesIn({ good: 'Active', suspended: 'Suspended', supplier: 'Suppliers' })

export function AccountsPage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const dialog = useDialog()
  const { find = '', standing } = search
  return (
    <Page
      intro="Customers and suppliers of this installation. Select one to add money, change its quota or suspend it."
      actions={
        <Button look="primary" onClick={() => dialog.open((close) => <OpenAccountDialog onClose={close} />)}>
          Create account
        </Button>
      }
    >
      <FilterBar
        label="Accounts"
        fields={[
          { name: 'find', label: 'Search by name or ID' },
          { name: 'standing', label: 'Status', choices: standings, any: 'All' },
        ]}
        search={search}
        onChange={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      />
      <PagedTable
        label="Accounts"
        call="listAccounts"
        query={{
          q: optionalText(find),
          supplier: standing === 'supplier' ? true : undefined,
          suspended: standing === undefined || standing === 'supplier' ? undefined : standing === 'suspended',
        }}
        rows={({ accounts }) => accounts}
        rowKey="id"
        columns={columns}
        virtual
        empty={<Empty title="No accounts match">Change the search text or the status.</Empty>}
      />
      {dialog.shown}
    </Page>
  )
}

const columns: Columns<Account> = [
  textColumn(
    'Account',
    (account) => (
      <span className="block leading-tight">
        <TextLink to="/operator/accounts/$id" params={{ id: account.id }}>
          {account.name}
        </TextLink>
        <span className="block font-mono text-xs text-muted">{account.id}</span>
      </span>
    ),
    { width: 'minmax(0, 2fr)' },
  ),
  textColumn('Status', (account) => <StandingBadge account={account} />),
  moneyColumn('Balance', 'balanceUsd'),
  moneyColumn('Not charged yet', 'unbilledUsd', { width: '8.5rem' }),
  moneyColumn('On hold', 'heldUsd'),
  moneyColumn('Earnings', (account) => (account.supplier ? account.earningsUsd : null)),
  dateColumn('Created', 'createdAt', { width: '8.5rem', align: 'right' }),
]
