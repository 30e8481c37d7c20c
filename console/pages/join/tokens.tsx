/** Active join tokens, without their secrets. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localTime, span } from '../../../src/view/time.ts'
import { number } from '../../../src/view/number.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { ConfirmDialog } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'

const TOKENS_SHOWN = 1_000
const TOKENS_EVERY_MS = 5_000

type Token = Reply<'listJoinTokens'>['tokens'][number]

export function JoinTokens() {
  const tokens = useCall('listJoinTokens', { query: { limit: TOKENS_SHOWN } }, { everyMs: TOKENS_EVERY_MS })
  const [asked, setAsked] = useState<Token | undefined>()
  return (
    <section aria-labelledby="tokens" className="flex flex-col gap-3">
      <h2 id="tokens" className="text-base font-semibold">
        Active join tokens
      </h2>
      <Answer of={tokens} skeleton={<Skeleton rows={2} />}>
        {(page) => (
          <Table
            label="Join tokens"
            columns={columnsWith(setAsked)}
            rows={page.tokens}
            rowKey={(token) => token.id}
            empty={
              <p className="text-sm text-muted">None. Each command contains a join token, which you can revoke here.</p>
            }
          />
        )}
      </Answer>
      {asked !== undefined && <RevokeDialog token={asked} onClose={() => setAsked(undefined)} />}
    </section>
  )
}

function columnsWith(onRevoke: (token: Token) => void): ReadonlyArray<Column<Token>> {
  return [
    { name: 'made', header: 'Created', cell: (token) => localTime(token.createdAt) },
    { name: 'left', header: 'Uses left', align: 'right', cell: (token) => number(token.usesLeft) },
    { name: 'ends', header: 'Expires', cell: (token) => <LeftOf token={token} /> },
    { name: 'id', header: 'Token', wideOnly: true, cell: (token) => <code className="font-mono">{token.id}</code> },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (token) => (
        <Button aria-label={`Revoke the token ${token.id}`} onClick={() => onRevoke(token)}>
          Revoke
        </Button>
      ),
    },
  ]
}

function LeftOf({ token }: { token: Token }) {
  const leftMs = Date.parse(token.expiresAt) - useNow()
  if (token.usesLeft === 0) return 'Used up'
  return leftMs <= 0 ? 'Expired' : <span className="tabular-nums">in {span(leftMs)}</span>
}

function RevokeDialog({ token, onClose }: { token: Token; onClose: () => void }) {
  const revoke = useAction('revokeJoinToken', ['listJoinTokens'])
  const confirm = (): void =>
    revoke.mutate(
      { params: { id: token.id } },
      {
        onSuccess: () => {
          toast('Revoked the join token.')
          onClose()
        },
      },
    )
  return (
    <ConfirmDialog
      title="Revoke this join token?"
      action="Revoke"
      busy={revoke.isPending}
      error={revoke.error}
      onConfirm={confirm}
      onClose={onClose}
    >
      Its command can no longer be used. Machines that have joined stay.
    </ConfirmDialog>
  )
}
