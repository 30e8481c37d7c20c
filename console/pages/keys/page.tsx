/** The account's API keys: scopes, limits and last use. */
import { useState, type ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { count, number } from '../../../src/view/number.ts'
import { localDate, localTime, relativeTime } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { missingScope, useMay, useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { CheckField } from '../../ui/field.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { CreateKeyDialog } from './create.tsx'

type ApiKey = Reply<'listApiKeys'>['apiKeys'][number]

/** An account may have thousands. */
const SHOWN_REVOKED = 200

export function KeysPage() {
  const mayManage = useMay('keys')
  const keys = useCall('listApiKeys')
  const [isCreating, setCreating] = useState(false)
  const [revoking, setRevoking] = useState<ApiKey>()
  const create = (
    <Button
      look="primary"
      disabledReason={mayManage ? undefined : missingScope('keys')}
      onClick={() => setCreating(true)}
    >
      Create key
    </Button>
  )
  return (
    <Page
      intro="Keys for the API, the command line and this console. Each key is limited to its scopes and this account."
      actions={create}
    >
      <Answer of={keys}>{({ apiKeys }) => <KeyList keys={apiKeys} onRevoke={setRevoking} create={create} />}</Answer>
      {isCreating && <CreateKeyDialog onClose={() => setCreating(false)} />}
      {revoking !== undefined && <RevokeDialog apiKey={revoking} onClose={() => setRevoking(undefined)} />}
    </Page>
  )
}

interface KeyListProps {
  readonly keys: readonly ApiKey[]
  readonly onRevoke: (key: ApiKey) => void
  readonly create: ReactNode
}

function KeyList({ keys, onRevoke, create }: KeyListProps) {
  const [showsRevoked, setShowsRevoked] = useState(false)
  const now = useNow()
  const live = keys.filter((key) => key.revokedAt === null)
  const revoked = keys.filter((key) => key.revokedAt !== null)
  const shown = showsRevoked ? [...live, ...revoked.slice(0, SHOWN_REVOKED)] : live
  return (
    <div className="flex flex-col gap-3">
      {revoked.length > 0 && (
        <CheckField
          label={`Show ${count(revoked.length, 'revoked key')}`}
          checked={showsRevoked}
          onChange={(event) => setShowsRevoked(event.target.checked)}
        />
      )}
      <Table
        label="API keys"
        columns={columnsAt(now, onRevoke)}
        rows={shown}
        rowKey={(key) => key.publicId}
        empty={<Empty title="No active keys" action={create} />}
      />
      {showsRevoked && revoked.length > SHOWN_REVOKED && (
        <p className="text-sm text-muted">Showing the newest {SHOWN_REVOKED} revoked keys.</p>
      )}
    </div>
  )
}

function columnsAt(now: number, onRevoke: (key: ApiKey) => void): ReadonlyArray<Column<ApiKey>> {
  return [
    { name: 'name', header: 'Name', cell: (key) => <KeyName apiKey={key} /> },
    { name: 'state', header: 'State', cell: (key) => <KeyState apiKey={key} now={now} /> },
    {
      name: 'scopes',
      header: 'Scopes',
      wideOnly: true,
      cell: (key) => <span className="block max-w-64">{key.scopes.join(', ')}</span>,
    },
    { name: 'limits', header: 'Limits', wideOnly: true, cell: (key) => <Limits apiKey={key} /> },
    {
      name: 'used',
      header: 'Last used',
      cell: (key) => (
        <span className="whitespace-nowrap" title={localTime(key.lastUsedAt)}>
          {key.lastUsedAt === null ? 'Never' : relativeTime(key.lastUsedAt, now)}
        </span>
      ),
    },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (key) =>
        key.revokedAt === null && (
          <Button onClick={() => onRevoke(key)} aria-label={`Revoke ${key.name}`}>
            Revoke
          </Button>
        ),
    },
  ]
}

function KeyName({ apiKey }: { apiKey: ApiKey }) {
  const me = useMe()
  return (
    <div className="min-w-36">
      <p className="font-medium break-words">{apiKey.name}</p>
      <p className="text-muted">
        <span className="font-mono">…{apiKey.last4}</span>
        {apiKey.publicId === me.key.publicId && ', current session'}
      </p>
    </div>
  )
}

function KeyState({ apiKey, now }: { apiKey: ApiKey; now: number }) {
  const { revokedAt, expiresAt } = apiKey
  if (revokedAt !== null) return <Badge tone="plain">Revoked {localDate(revokedAt)}</Badge>
  if (expiresAt === null) return <Badge tone="good">Active</Badge>
  if (Date.parse(expiresAt) <= now) return <Badge tone="bad">Expired {localDate(expiresAt)}</Badge>
  return <Badge tone="good">Active until {localDate(expiresAt)}</Badge>
}

function Limits({ apiKey }: { apiKey: ApiKey }) {
  const { monthlyLimitUsd, totalLimitUsd, requestsPerMinute, tokensPerMinute, allowedModels } = apiKey
  const lines = [
    ...(monthlyLimitUsd === null ? [] : [`${money(monthlyLimitUsd)} per month`]),
    ...(totalLimitUsd === null ? [] : [`${money(totalLimitUsd)} in total`]),
    ...(requestsPerMinute === null ? [] : [`${number(requestsPerMinute)} requests per minute`]),
    ...(tokensPerMinute === null ? [] : [`${number(tokensPerMinute)} tokens per minute`]),
    ...(allowedModels === null ? [] : [`Only ${allowedModels.join(', ')}`]),
  ]
  if (lines.length === 0) return <span className="text-muted">None</span>
  return (
    <ul className="max-w-64">
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  )
}

function RevokeDialog({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const me = useMe()
  return (
    <ConfirmCall
      title={`Revoke ${apiKey.name}?`}
      action="Revoke"
      operation="revokeApiKey"
      input={{ params: { id: apiKey.publicId } }}
      refreshes={['listApiKeys']}
      done={`Revoked ${apiKey.name}`}
      onClose={onClose}
    >
      <p>
        Requests with <span className="font-mono">…{apiKey.last4}</span> are rejected within a second. This cannot be
        undone. Machines rented with this key keep running.
      </p>
      {apiKey.publicId === me.key.publicId && (
        <p className="mt-2 font-medium text-bad">
          You are signed in with this key. Revoking it signs you out, and you need another key to sign in again.
        </p>
      )}
    </ConfirmCall>
  )
}
