/** The audit log. Filter and page are in the URL, so that a finding can be shared. */
import { getRouteApi } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { actionLabel, auditDetails, auditSummary } from '../../../src/domain/audit.ts'
import { localTime } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Facts } from '../../ui/card.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'

type AuditRecord = Reply<'listAudit'>['records'][number]

const route = getRouteApi('/shell/operator/audit')
const PAGE_ROWS = 50
/** A price book change can have a thousand rows. */
const DETAILS_SHOWN = 200

export function AuditPage() {
  const { accountId, cursor } = route.useSearch()
  const navigate = route.useNavigate()
  const query = {
    limit: PAGE_ROWS,
    ...(accountId === undefined ? {} : { accountId }),
    ...(cursor === undefined ? {} : { cursor }),
  }
  const audit = useCall('listAudit', { query })
  const [opened, setOpened] = useState<AuditRecord | undefined>()
  return (
    <Page intro="Every action of operators and suppliers, newest first. Entries are never removed.">
      <AccountFilter key={accountId ?? ''} />
      <Answer of={audit} skeleton={<Skeleton rows={10} />}>
        {(page) => (
          <>
            <Table
              label="Audit log"
              columns={columnsWith(setOpened)}
              rows={page.records}
              rowKey={(record) => record.id}
              empty={
                <Empty
                  title="No entries"
                  action={<Button onClick={() => void navigate({ search: {} })}>Show all entries</Button>}
                >
                  {accountId === undefined
                    ? 'There are no older entries.'
                    : 'No actions were recorded for this account.'}
                </Empty>
              }
            />
            <nav aria-label="Pages" className="flex justify-end gap-2">
              <Button
                disabled={cursor === undefined}
                onClick={() => void navigate({ search: (old) => ({ ...old, cursor: undefined }) })}
              >
                Newest
              </Button>
              <Button
                disabled={page.nextCursor === null}
                onClick={() => void navigate({ search: (old) => ({ ...old, cursor: page.nextCursor ?? undefined }) })}
              >
                Older
              </Button>
            </nav>
          </>
        )}
      </Answer>
      {opened !== undefined && <RecordDialog record={opened} onClose={() => setOpened(undefined)} />}
    </Page>
  )
}

function AccountFilter() {
  const { accountId } = route.useSearch()
  const navigate = route.useNavigate()
  const [text, setText] = useState(accountId ?? '')
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    void navigate({ search: text === '' ? {} : { accountId: text } })
  }
  return (
    <form onSubmit={submit} className="flex flex-wrap items-end gap-2">
      <TextField
        label="Account ID"
        className="w-full sm:w-72"
        placeholder="All accounts"
        value={text}
        onChange={(event) => setText(event.target.value.trim())}
      />
      <Button type="submit">Filter</Button>
      {accountId !== undefined && (
        <Button look="quiet" onClick={() => void navigate({ search: {} })}>
          Show all accounts
        </Button>
      )}
    </form>
  )
}

function columnsWith(open: (record: AuditRecord) => void): ReadonlyArray<Column<AuditRecord>> {
  return [
    { name: 'at', header: 'Time', cell: (record) => <span className="whitespace-nowrap">{localTime(record.at)}</span> },
    {
      name: 'action',
      header: 'Action',
      cell: (record) => (
        <div className="min-w-44">
          <div className="font-medium">{actionLabel(record.action)}</div>
          <div className="max-w-80 truncate text-muted">{auditSummary(record, money)}</div>
        </div>
      ),
    },
    {
      name: 'account',
      header: 'Account',
      cell: ({ accountId, accountName }) =>
        accountId === null ? (
          '—'
        ) : (
          <TextLink to="/operator/accounts/$id" params={{ id: accountId }}>
            {accountName}
          </TextLink>
        ),
    },
    { name: 'reason', header: 'Reason', cell: (record) => <span className="min-w-32">{record.reason ?? '—'}</span> },
    {
      name: 'actor',
      header: 'API key',
      wideOnly: true,
      cell: (record) => <span className="font-mono text-xs">{record.actor}</span>,
    },
    {
      name: 'details',
      header: <span className="sr-only">Details</span>,
      align: 'right',
      cell: (record) => (
        <Button aria-label={`Details of entry ${record.id}`} onClick={() => open(record)}>
          Details
        </Button>
      ),
    },
  ]
}

function RecordDialog({ record, onClose }: { record: AuditRecord; onClose: () => void }) {
  const lines = auditDetails(record.detail, money)
  const left = lines.length - DETAILS_SHOWN
  return (
    <Dialog title={actionLabel(record.action)} wide onClose={onClose}>
      <div className="flex flex-col gap-4">
        <Facts
          facts={[
            ['Time', localTime(record.at)],
            [
              'API key',
              <code key="actor" className="font-mono">
                {record.actor}
              </code>,
            ],
            ['Reason', record.reason ?? 'None given'],
            ['Account', record.accountName ?? '—'],
            [
              'Subject',
              <span key="subject" className="break-all">
                {record.subject ?? '—'}
              </span>,
            ],
            ['Entry', `${record.id}, ${record.action}`],
          ]}
        />
        {lines.length > 0 && (
          <section>
            <h3 className="mb-2 text-sm font-semibold">Details</h3>
            <Facts facts={lines.slice(0, DETAILS_SHOWN)} />
            {left > 0 && <p className="mt-2 text-sm text-muted">… and {left} more. The API returns all of them.</p>}
          </section>
        )}
      </div>
      <DialogButtons>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </DialogButtons>
    </Dialog>
  )
}
