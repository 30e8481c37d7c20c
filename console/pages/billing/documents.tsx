/** Invoices and credit notes as PDF, and whom they are made out to. */
import type { Reply } from '../../../src/client/client.ts'
import { routes } from '../../../src/contract/routes.ts'
import { documentLabels, vatStateLabels } from '../../../src/view/document.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionsColumn, dateColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card, Facts, type Fact } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { DownloadLink } from '../../ui/download-link.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'

type Issued = Reply<'listDocuments'>['documents'][number]
type Profile = Reply<'getBillingProfile'>['profile']

const columns: Columns<Issued> = [
  dateColumn('Date', 'issuedAt'),
  textColumn('Document', ({ kind, number, corrects }) => (
    <div className="min-w-36">
      {documentLabels[kind]} <span className="font-mono">{number}</span>
      {corrects !== null && <p className="text-muted">Corrects {corrects}</p>}
    </div>
  )),
  moneyColumn('Net', 'amountUsd', { wideOnly: true }),
  moneyColumn('Tax', 'taxUsd', { wideOnly: true }),
  moneyColumn('Total', 'totalUsd'),
  actionsColumn(({ number }) => (
    <DownloadLink href={routes.getDocumentPdf.path.replace('{number}', number)} file={`${number}.pdf`}>
      PDF
    </DownloadLink>
  )),
]

export function Documents() {
  return (
    <div className="flex flex-col gap-4">
      <BillingDetails />
      <ListTable
        label="Documents"
        call="listDocuments"
        rows={({ documents }) => documents}
        rowKey="number"
        columns={columns}
        empty={<Empty title="No documents yet">Each payment by card gets an invoice here.</Empty>}
      />
    </div>
  )
}

function BillingDetails() {
  const mayChange = useMay('billing:write')
  const current = useCall('getBillingProfile')
  const dialog = useDialog()
  const profile = current.data?.profile ?? null
  return (
    <Card
      title="Billing details"
      actions={
        <Button
          disabledReason={mayChange ? undefined : missingScope('billing:write')}
          disabled={current.data === undefined}
          onClick={() => dialog.open((close) => <ProfileDialog profile={profile} onClose={close} />)}
        >
          {profile === null ? 'Enter' : 'Change'}
        </Button>
      }
    >
      <Answer of={current} skeleton={<Skeleton rows={3} />}>
        {(value) =>
          value.profile === null ? (
            <p className="text-sm text-muted">Enter your company and address, so that invoices are made out to them.</p>
          ) : (
            <Facts facts={factsOf(value.profile)} />
          )
        }
      </Answer>
      {dialog.shown}
    </Card>
  )
}

function factsOf(profile: NonNullable<Profile>): Fact[] {
  const { name, line1, line2, postalCode, city, state, country, vatId, vatState, poNumber } = profile
  const address = [line1, line2, [postalCode, city].filter(Boolean).join(' '), state, country]
    .filter(Boolean)
    .join(', ')
  const facts: Fact[] = [
    [
      'Name',
      <span key="name" className="break-words">
        {name}
      </span>,
    ],
    [
      'Address',
      <span key="address" className="break-words">
        {address}
      </span>,
    ],
  ]
  if (vatId !== null && vatState !== null) {
    const [label, tone] = vatStateLabels[vatState]
    facts.push([
      'VAT ID',
      <span key="vat">
        {vatId} <Badge tone={tone}>{label}</Badge>
      </span>,
    ])
  }
  if (poNumber !== null) facts.push(['Order number', poNumber])
  return facts
}

function ProfileDialog({ profile, onClose }: { profile: Profile; onClose: () => void }) {
  return (
    <FieldDialog
      operation="setBillingProfile"
      refreshes={['getBillingProfile']}
      title="Billing details"
      action="Save"
      wide
      initial={{
        name: profile?.name ?? '',
        line1: profile?.line1 ?? '',
        line2: profile?.line2 ?? '',
        postalCode: profile?.postalCode ?? '',
        city: profile?.city ?? '',
        state: profile?.state ?? '',
        country: profile?.country ?? '',
        vatId: profile?.vatId ?? '',
        poNumber: profile?.poNumber ?? '',
      }}
      fields={[
        ['name', { label: 'Company or name', hint: null }],
        ['line1', { label: 'Street and number', hint: null }],
        ['line2', { label: 'Second line', hint: null }],
        ['postalCode', { label: 'Postal code', hint: null }],
        ['city', { label: 'City', hint: null }],
        ['state', { label: 'State or province', hint: null }],
        ['country', { label: 'Country', hint: 'Two letters, such as DE.' }],
        ['vatId', { label: 'VAT ID', hint: 'Counts for the tax once it is verified.' }],
        ['poNumber', { label: 'Your order number', hint: 'Printed on each document.' }],
      ]}
      done="Saved for later invoices"
      onClose={onClose}
    />
  )
}
