/** The audit log. Filter and page are in the URL, so that a finding can be shared. */
import { getRouteApi } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { actionLabel, auditDetails, auditSummary } from '../../../src/domain/audit.ts'
import { localTime } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { accountColumn, actionColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Code, Facts } from '../../ui/card.tsx'
import { Dialog, DialogButtons, useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

type AuditRecord = Reply<'listAudit'>['records'][number]

const route = getRouteApi('/shell/operator/audit')
const PAGE_ROWS = 50
/** A price book change can have a thousand rows. */
const DETAILS_SHOWN = 200

export function AuditPage() {
  const { accountId, cursor } = route.useSearch()
  const navigate = route.useNavigate()
  const audit = useCall('listAudit', { query: { limit: PAGE_ROWS, accountId, cursor } })
  const dialog = useDialog()
  const show = (record: AuditRecord): void => dialog.open((close) => <RecordDialog record={record} onClose={close} />)
  const goTo = (next: string | undefined): void => void navigate({ search: (before) => ({ ...before, cursor: next }) })
  return (
    <Page intro="Every action of operators and suppliers, newest first. Entries are never removed.">
      <AccountFilter key={accountId ?? ''} />
      <Answer of={audit} skeleton={<Skeleton rows={10} />}>
        {({ records, nextCursor }) => (
          <>
            <Table
              label="Audit log"
              columns={[...columns, actionColumn('Details', ({ id }) => `of entry ${id}`, show)]}
              rows={records}
              rowKey="id"
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
              <Button disabled={cursor === undefined} onClick={() => goTo(undefined)}>
                Newest
              </Button>
              <Button disabled={nextCursor === null} onClick={() => goTo(nextCursor ?? undefined)}>
                Older
              </Button>
            </nav>
          </>
        )}
      </Answer>
      {dialog.shown}
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

const columns: Columns<AuditRecord> = [
  timeColumn('Time', 'at'),
  textColumn('Action', (record) => (
    <div className="min-w-44">
      <div className="font-medium">{actionLabel(record.action)}</div>
      <div className="max-w-80 truncate text-muted">{auditSummary(record, money)}</div>
    </div>
  )),
  accountColumn(),
  textColumn('Reason', 'reason', { className: 'min-w-32' }),
  textColumn('API key', 'actor', { wideOnly: true, className: 'font-mono text-xs' }),
]

function RecordDialog({ record, onClose }: { record: AuditRecord; onClose: () => void }) {
  const lines = auditDetails(record.detail, money)
  const hiddenCount = lines.length - DETAILS_SHOWN
  return (
    <Dialog title={actionLabel(record.action)} wide onClose={onClose}>
      <div className="flex flex-col gap-4">
        <Facts
          facts={[
            ['Time', localTime(record.at)],
            ['API key', <Code key="actor" text={record.actor} />],
            ['Reason', record.reason ?? 'None given'],
            ['Account', record.accountName ?? '—'],
            ['Subject', <Code key="subject" text={record.subject ?? '—'} />],
            ['Entry', `${record.id}, ${record.action}`],
          ]}
        />
        {lines.length > 0 && (
          <section>
            <h3 className="mb-2 text-sm font-semibold">Details</h3>
            <Facts facts={lines.slice(0, DETAILS_SHOWN)} />
            {hiddenCount > 0 && (
              <p className="mt-2 text-sm text-muted">… and {hiddenCount} more. The API returns all of them.</p>
            )}
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
