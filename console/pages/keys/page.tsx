/** The account's API keys: scopes, limits and last use. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { count, number } from '../../../src/view/number.ts'
import { localDate } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { missingScope, useMay, useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { actionsColumn, agoColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { CheckField } from '../../ui/field.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { CreateKeyDialog } from './create.tsx'

type ApiKey = Reply<'listApiKeys'>['apiKeys'][number]

/** The maximum of revoked keys shown: an account may have thousands. */
const SHOWN_REVOKED = 200

export function KeysPage() {
  const mayManage = useMay('keys')
  const dialog = useDialog()
  const [showsRevoked, setShowsRevoked] = useState(false)
  const all = useCall('listApiKeys').data?.apiKeys ?? []
  const revokedCount = all.filter(isRevoked).length
  const create = (
    <Button
      look="primary"
      disabledReason={mayManage ? undefined : missingScope('keys')}
      onClick={() => dialog.open((close) => <CreateKeyDialog onClose={close} />)}
    >
      Create key
    </Button>
  )
  const revoke = (key: ApiKey) => (
    <Button
      aria-label={`Revoke ${key.name}`}
      onClick={() => dialog.open((close) => <RevokeDialog apiKey={key} onClose={close} />)}
    >
      Revoke
    </Button>
  )
  return (
    <Page
      intro="Keys for the API, the command line and this console. Each key is limited to its scopes and this account."
      actions={create}
    >
      <div className="flex flex-col gap-3">
        {revokedCount > 0 && (
          <CheckField
            label={`Show ${count(revokedCount, 'revoked key')}`}
            checked={showsRevoked}
            onChange={(event) => setShowsRevoked(event.target.checked)}
          />
        )}
        <ListTable
          label="API keys"
          call="listApiKeys"
          rows={({ apiKeys }) => [
            ...apiKeys.filter((key) => !isRevoked(key)),
            ...(showsRevoked ? apiKeys.filter(isRevoked).slice(0, SHOWN_REVOKED) : []),
          ]}
          rowKey="publicId"
          columns={[...columns, actionsColumn((key: ApiKey) => !isRevoked(key) && revoke(key))]}
          empty={<Empty title="No active keys" action={create} />}
        />
        {showsRevoked && revokedCount > SHOWN_REVOKED && (
          <p className="text-sm text-muted">Showing the newest {SHOWN_REVOKED} revoked keys.</p>
        )}
      </div>
      {dialog.shown}
    </Page>
  )
}

function isRevoked({ revokedAt }: ApiKey): boolean {
  return revokedAt !== null
}

const columns: Columns<ApiKey> = [
  textColumn('Name', (key) => <KeyName apiKey={key} />),
  textColumn('State', (key) => <KeyState apiKey={key} />),
  textColumn('Scopes', ({ scopes }) => scopes.join(', '), { wideOnly: true, className: 'block max-w-64' }),
  textColumn('Limits', (key) => <Limits apiKey={key} />, { wideOnly: true }),
  agoColumn('Last used', 'lastUsedAt', { never: 'Never' }),
]

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

function KeyState({ apiKey }: { apiKey: ApiKey }) {
  const now = useNow()
  const { revokedAt, expiresAt } = apiKey
  if (revokedAt !== null) return <Badge tone="plain">Revoked {localDate(revokedAt)}</Badge>
  if (expiresAt === null) return <Badge tone="good">Active</Badge>
  if (Date.parse(expiresAt) <= now) return <Badge tone="bad">Expired {localDate(expiresAt)}</Badge>
  return <Badge tone="good">Active until {localDate(expiresAt)}</Badge>
}

function Limits({ apiKey }: { apiKey: ApiKey }) {
  const { monthlyLimitUsd, totalLimitUsd, requestsPerMinute, tokensPerMinute, class: keyClass } = apiKey
  const { allowedModels, allowedOrigins } = apiKey
  const lines = [
    ...(monthlyLimitUsd === null ? [] : [`${money(monthlyLimitUsd)} per month`]),
    ...(totalLimitUsd === null ? [] : [`${money(totalLimitUsd)} in total`]),
    ...(requestsPerMinute === null ? [] : [`${number(requestsPerMinute)} requests per minute`]),
    ...(tokensPerMinute === null ? [] : [`${number(tokensPerMinute)} tokens per minute`]),
    ...(keyClass === 'batch' ? ['Batch: waits while others do'] : []),
    ...(allowedModels === null ? [] : [`Only ${allowedModels.join(', ')}`]),
    ...(allowedOrigins.length === 0 ? [] : [`In web pages of ${allowedOrigins.join(', ')}`]),
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
