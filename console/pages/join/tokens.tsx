/** Active join tokens, without their secrets. */
import type { Reply } from '../../../src/client/client.ts'
import { span } from '../../../src/view/time.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { actionColumn, numberColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Section } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'

const TOKENS_EVERY_MS = 5_000

type Token = Reply<'listJoinTokens'>['tokens'][number]

export function JoinTokens() {
  const dialog = useDialog()
  const revoke = ({ id }: Token): void =>
    dialog.open((close) => (
      <ConfirmCall
        title="Revoke this join token?"
        action="Revoke"
        operation="revokeJoinToken"
        input={{ params: { id } }}
        refreshes={['listJoinTokens']}
        done="Revoked the join token."
        onClose={close}
      >
        Its command can no longer be used. Machines that have joined stay.
      </ConfirmCall>
    ))
  return (
    <Section title="Active join tokens">
      <PagedTable
        label="Join tokens"
        call="listJoinTokens"
        everyMs={TOKENS_EVERY_MS}
        rows={({ tokens }) => tokens}
        rowKey="id"
        columns={[...columns, actionColumn('Revoke', ({ id }) => `the token ${id}`, revoke)]}
        skeleton={2}
        empty="None. Each command contains a join token, which you can revoke here."
      />
      {dialog.shown}
    </Section>
  )
}

const columns: Columns<Token> = [
  timeColumn('Created', 'createdAt'),
  numberColumn('Uses left', 'usesLeft'),
  textColumn('Expires', (token) => <LeftOf token={token} />),
  textColumn('Token', 'id', { wideOnly: true, className: 'font-mono' }),
]

function LeftOf({ token }: { token: Token }) {
  const leftMs = Date.parse(token.expiresAt) - useNow()
  if (token.usesLeft === 0) return 'Used up'
  return leftMs <= 0 ? 'Expired' : <span className="tabular-nums">in {span(leftMs)}</span>
}
