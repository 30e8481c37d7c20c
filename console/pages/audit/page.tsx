/** Who did what, when and why. What is chosen and the page stand in the address, so a find can be handed on. */
import { getRouteApi } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { actionWords, auditDetails, auditSummary } from '../../../src/domain/audit.ts'
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
/** Of one entry: a change of the price book may name a thousand rows. */
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
    <Page intro="Everything that was done with an operator’s or a supplier’s rights, newest first. Nothing is ever removed from it.">
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
                  title="Nothing is written down here"
                  action={<Button onClick={() => void navigate({ search: {} })}>Show everything</Button>}
                >
                  {accountId === undefined ? 'There are no older entries.' : 'Nothing was done with this account.'}
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
        label="Account id"
        className="w-full sm:w-72"
        placeholder="All accounts"
        value={text}
        onChange={(event) => setText(event.target.value.trim())}
      />
      <Button type="submit">Show</Button>
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
    { name: 'at', header: 'When', cell: (record) => <span className="whitespace-nowrap">{localTime(record.at)}</span> },
    {
      name: 'action',
      header: 'What',
      cell: (record) => (
        <div className="min-w-44">
          <div className="font-medium">{actionWords(record.action)}</div>
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
    { name: 'reason', header: 'Why', cell: (record) => <span className="min-w-32">{record.reason ?? '—'}</span> },
    {
      name: 'actor',
      header: 'Who',
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
    <Dialog title={actionWords(record.action)} wide onClose={onClose}>
      <div className="flex flex-col gap-4">
        <Facts
          facts={[
            ['When', localTime(record.at)],
            [
              'Who',
              <code key="who" className="font-mono">
                {record.actor}
              </code>,
            ],
            ['Why', record.reason ?? 'No reason was given'],
            ['Account', record.accountName ?? '—'],
            [
              'About',
              <span key="about" className="break-all">
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
            {left > 0 && <p className="mt-2 text-sm text-muted">… and {left} more: the API has all of them.</p>}
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
