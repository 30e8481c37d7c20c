/** E-mail of the last days: what was sent, what failed and why, and what was withheld. */
import { getRouteApi } from '@tanstack/react-router'
import type { Reply } from '../../../src/client/client.ts'
import type { Tone } from '../../../src/view/tone.ts'
import { optionalText } from '../../form/read.ts'
import { agoColumn, badgeColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { choicesIn, FilterBar } from '../../list/filter.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'

type Mail = Reply<'listMails'>['mails'][number]

const route = getRouteApi('/shell/operator/mail')
const EVERY_MS = 10_000

const states = {
  pending: ['Waiting', 'info'],
  sent: ['Sent', 'good'],
  failed: ['Failed', 'bad'],
  withheld: ['Withheld', 'warn'],
} as const satisfies Record<Mail['state'], readonly [string, Tone]>

const subjects: Readonly<Record<string, string>> = {
  'sign-in-code': 'Sign-in code',
  'new-sign-in': 'New sign-in',
  invitation: 'Invitation',
}

export function MailPage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { find = '', state } = search
  return (
    <Page intro="Messages of the last days. Withheld ones were asked for by an address that may not sign in here, and nobody gets them.">
      <FilterBar
        label="Mail"
        fields={[
          { name: 'find', label: 'Search by address' },
          { name: 'state', label: 'State', choices: choicesIn(states), any: 'All' },
        ]}
        search={search}
        onChange={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      />
      <PagedTable
        label="Mail"
        call="listMails"
        query={{ q: optionalText(find), state }}
        rows={({ mails }) => mails}
        rowKey="id"
        everyMs={EVERY_MS}
        columns={columns}
        empty={
          find === '' && state === undefined ? (
            <Empty title="No e-mail yet">
              Sign-in codes, invitations and notifications are listed here once this server sends them.
            </Empty>
          ) : (
            <Empty title="No e-mail matches">Change the search text or the state.</Empty>
          )
        }
      />
    </Page>
  )
}

const columns: Columns<Mail> = [
  textColumn('To', ({ to }) => <span className="block min-w-48 font-medium break-words">{to}</span>),
  textColumn('About', ({ about }) => subjects[about] ?? about),
  badgeColumn('State', ({ state }) => states[state]),
  textColumn('What the mail server said', ({ error, attempts }) => <Said error={error} attempts={attempts} />),
  agoColumn('Created', 'createdAt'),
  timeColumn('Ended', 'endedAt', { wideOnly: true }),
]

function Said({ error, attempts }: Pick<Mail, 'error' | 'attempts'>) {
  if (error === null) return '—'
  return (
    <span className="block min-w-56 break-words">
      {error}
      {attempts > 1 && <span className="text-muted"> ({attempts} attempts)</span>}
    </span>
  )
}
