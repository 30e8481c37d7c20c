/** Browsers in which the person is signed in. */
import type { Reply } from '../../../src/client/client.ts'
import { useSignInWays } from '../../api/sign-in.ts'
import { CallButton, ConfirmCall } from '../../form/dialog.tsx'
import { actionsColumn, agoColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Section } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'

type Session = Reply<'listSessions'>['sessions'][number]

export function Sessions() {
  const dialog = useDialog()
  return (
    <Section
      title="Sessions"
      actions={
        <Button onClick={() => dialog.open((close) => <EndOthers onClose={close} />)}>Sign out everywhere else</Button>
      }
    >
      <ListTable
        label="Sessions"
        call="listSessions"
        rows={({ sessions }) => sessions}
        rowKey="id"
        columns={columns}
        empty="No sessions"
      />
      {dialog.shown}
    </Section>
  )
}

const columns: Columns<Session> = [
  textColumn('Browser', ({ browser, isCurrent }) => (
    <span className="flex min-w-40 flex-wrap items-center gap-2">
      <span className="font-medium">{browserName(browser)}</span>
      {isCurrent && <Badge tone="good">This browser</Badge>}
    </span>
  )),
  textColumn('Signed in with', (session) => <Method session={session} />),
  textColumn('IP address', 'address', { wideOnly: true }),
  agoColumn('Last seen', 'seenAt'),
  timeColumn('Signed in', 'createdAt', { wideOnly: true }),
  actionsColumn(({ id, isCurrent, browser }) =>
    isCurrent ? null : (
      <CallButton
        operation="endSession"
        input={{ params: { id } }}
        refreshes={['listSessions']}
        done="Signed out there"
        aria-label={`Sign out ${browserName(browser)}`}
      >
        Sign out
      </CallButton>
    ),
  ),
]

const methods = {
  key: 'API key',
  code: 'Code by email',
  passkey: 'Passkey',
  provider: 'Provider',
} as const satisfies Record<Session['method'], string>

function Method({ session: { method, providerId, factorAt } }: { session: Session }) {
  const providers = useSignInWays().data?.providers
  const name = providers?.find(({ id }) => id === providerId)?.name ?? providerId
  return (
    <>
      {method === 'provider' ? (name ?? methods.provider) : methods[method]}
      {factorAt !== null && method !== 'passkey' && <span className="text-muted">, second factor</span>}
    </>
  )
}

function EndOthers({ onClose }: { onClose: () => void }) {
  return (
    <ConfirmCall
      title="Sign out everywhere else?"
      action="Sign out"
      operation="endOtherSessions"
      input={{}}
      refreshes={['listSessions']}
      done="Signed out everywhere else"
      onClose={onClose}
    >
      <p>All your other sessions end within a second, on every device. This browser stays signed in.</p>
    </ConfirmCall>
  )
}

/** Most browsers also name others, so the order matters. */
const browsers = [
  ['Firefox', /Firefox\//],
  ['Edge', /Edg\//],
  ['Opera', /OPR\//],
  ['Chrome', /(Headless)?Chrom(e|ium)\//],
  ['Safari', /Safari\//],
] as const

const systems = [
  ['Android', /Android/],
  ['iOS', /iPhone|iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['Linux', /Linux/],
] as const

/** "Firefox on Linux", of a `User-Agent`. */
function browserName(agent: string | null): string {
  if (agent === null) return 'Unknown browser'
  const browser = browsers.find(([, pattern]) => pattern.test(agent))?.[0] ?? 'A browser'
  const system = systems.find(([, pattern]) => pattern.test(agent))?.[0]
  return system === undefined ? browser : `${browser} on ${system}`
}
