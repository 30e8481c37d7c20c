/** Who sells: the operator's company, its tax rates, and the VAT IDs of accounts. */
import type { Reply } from '../../../src/client/client.ts'
import { vatStateLabels } from '../../../src/view/document.ts'
import { useCall } from '../../api/query.ts'
import { CallButton } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionsColumn, badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Card, Facts, type Fact } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

type Seller = Reply<'getSeller'>['seller']
type Rate = Reply<'getSeller'>['taxRates'][number]
type VatId = Reply<'listVatIds'>['vatIds'][number]

export function SellerPage() {
  const current = useCall('getSeller')
  const vatIds = useCall('listVatIds')
  const dialog = useDialog()
  const seller = current.data?.seller ?? null
  return (
    <Page
      intro="Once you have said who sells, each payment by card gets an invoice. Changes count for later payments and documents."
      actions={
        <Button
          look="primary"
          disabled={current.data === undefined}
          onClick={() => dialog.open((close) => <SellerDialog seller={seller} onClose={close} />)}
        >
          {seller === null ? 'Set the seller' : 'Change the seller'}
        </Button>
      }
    >
      <Answer of={current} skeleton={<Skeleton rows={8} />}>
        {(value) => (
          <>
            <Card title="Seller">
              {value.seller === null ? (
                <Empty title="No seller">No invoices are issued.</Empty>
              ) : (
                <Facts facts={factsOf(value.seller)} />
              )}
            </Card>
            <Rates rates={value.taxRates} taxBy={value.seller?.taxBy} />
          </>
        )}
      </Answer>
      <Card title="VAT IDs of accounts">
        <Answer of={vatIds} skeleton={<Skeleton rows={3} />}>
          {({ vatIds: rows }) => (
            <Table
              label="VAT IDs of accounts"
              rows={rows}
              rowKey="accountId"
              columns={[
                ...vatColumns,
                recordColumn((row) => dialog.open((close) => <CheckDialog row={row} onClose={close} />)),
              ]}
              empty={<Empty title="No VAT IDs">Customers enter theirs under Billing.</Empty>}
            />
          )}
        </Answer>
      </Card>
      {dialog.shown}
    </Page>
  )
}

function recordColumn(onRecord: (row: VatId) => void): Columns<VatId>[number] {
  return actionsColumn((row) => (
    <Button look="quiet" aria-label={`Record the check of ${row.vatId}`} onClick={() => onRecord(row)}>
      Record check
    </Button>
  ))
}

const vatColumns: Columns<VatId> = [
  textColumn('Account', ({ accountId, name }) => (
    <TextLink to="/operator/accounts/$id" params={{ id: accountId }} className="break-words">
      {name}
    </TextLink>
  )),
  textColumn('VAT ID', 'vatId', { className: 'font-mono' }),
  badgeColumn('State', ({ vatState }) => vatStateLabels[vatState]),
]

function factsOf(seller: NonNullable<Seller>): Fact[] {
  const { name, line1, line2, postalCode, city, state, country, taxId, email, footer, taxBy } = seller
  return [
    ['Company', name],
    [
      'Address',
      [line1, line2, [postalCode, city].filter(Boolean).join(' '), state, country].filter(Boolean).join(', '),
    ],
    ['Tax ID', taxId ?? 'None'],
    ['Email', email ?? 'None'],
    ['Footer', footer ?? 'None'],
    ['Tax', taxBy === 'rates' ? 'By your own rates' : 'By Stripe Tax'],
  ]
}

function Rates({ rates, taxBy }: { rates: readonly Rate[]; taxBy: 'processor' | 'rates' | undefined }) {
  const dialog = useDialog()
  const columns: Columns<Rate> = [
    textColumn('Country', 'country'),
    textColumn('Tax', ({ name, percent }) => `${name} ${percent}%`),
    actionsColumn(({ country }) => (
      <CallButton
        look="quiet"
        operation="deleteTaxRate"
        input={{ params: { country } }}
        refreshes={['getSeller']}
        done={`Sales to ${country} are no longer taxed`}
        aria-label={`Remove the rate of ${country}`}
      >
        Remove
      </CallButton>
    )),
  ]
  return (
    <Card
      title="Tax rates"
      actions={<Button onClick={() => dialog.open((close) => <RateDialog onClose={close} />)}>Set a rate</Button>}
    >
      {taxBy === 'processor' && <p className="mb-3 text-sm text-muted">Not in use: Stripe Tax decides.</p>}
      <Table
        label="Tax rates"
        rows={rates}
        rowKey="country"
        columns={columns}
        empty={<Empty title="No rates">A country without a rate is not taxed.</Empty>}
      />
      {dialog.shown}
    </Card>
  )
}

function SellerDialog({ seller, onClose }: { seller: Seller; onClose: () => void }) {
  return (
    <FieldDialog
      operation="setSeller"
      refreshes={['getSeller', 'listAudit']}
      title="Seller"
      action="Save"
      wide
      initial={{
        name: seller?.name ?? '',
        line1: seller?.line1 ?? '',
        line2: seller?.line2 ?? '',
        postalCode: seller?.postalCode ?? '',
        city: seller?.city ?? '',
        state: seller?.state ?? '',
        country: seller?.country ?? '',
        taxId: seller?.taxId ?? '',
        email: seller?.email ?? '',
        footer: seller?.footer ?? '',
        taxBy: seller?.taxBy ?? 'processor',
      }}
      fields={[
        ['name', { label: 'Company', hint: null }],
        ['line1', { label: 'Street and number', hint: null }],
        ['line2', { label: 'Second line', hint: null }],
        ['postalCode', { label: 'Postal code', hint: null }],
        ['city', { label: 'City', hint: null }],
        ['state', { label: 'State or province', hint: null }],
        ['country', { label: 'Country', hint: 'Two letters, such as DE.' }],
        ['taxId', { label: 'Tax ID', hint: 'As it is printed.' }],
        ['email', { label: 'Email', hint: 'For questions about documents.' }],
        ['footer', { label: 'Footer', hint: 'Such as the company register.' }],
        [
          'taxBy',
          {
            label: 'Tax',
            hint: null,
            choices: [
              { value: 'processor', label: 'By Stripe Tax' },
              { value: 'rates', label: 'By your own rates' },
            ],
          },
        ],
      ]}
      done="Saved for later documents"
      onClose={onClose}
    />
  )
}

function RateDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="setTaxRate"
      refreshes={['getSeller', 'listAudit']}
      title="Tax rate"
      action="Save"
      initial={{ name: 'VAT' }}
      fields={[
        ['country', { label: 'Country', hint: 'Two letters, such as DE.' }],
        ['name', { label: 'Name', hint: 'As it is printed.' }],
        ['percent', { label: 'Percent', hint: 'Such as 19 or 8.875.' }],
      ]}
      done={({ country, name, percent }) => `Sales to ${country}: ${name} ${percent}%`}
      onClose={onClose}
    />
  )
}

function CheckDialog({ row, onClose }: { row: VatId; onClose: () => void }) {
  return (
    <FieldDialog
      operation="checkVatId"
      refreshes={['listVatIds', 'listAudit']}
      title={`Check of ${row.vatId}`}
      action="Record"
      initial={{ isVerified: true }}
      fields={[
        ['isVerified', { label: 'The tax office knows it', hint: null }],
        ['reason', { label: 'How you checked', hint: 'Recorded in the audit log.' }],
      ]}
      input={{ params: { id: row.accountId } }}
      body={(body) => ({ ...body, vatId: row.vatId })}
      done={({ vatState }) => (vatState === 'verified' ? 'Recorded as verified' : 'Recorded as not found')}
      onClose={onClose}
    />
  )
}
