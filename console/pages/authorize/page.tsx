/**
 * Signing an agent in with OAuth: the person sees which one asks and where the answer goes, and decides with what rights.
 * The client has opened this page; only its document proves where it belongs.
 */
import { useState } from 'react'
import { limits } from '../../../src/base/limits.ts'
import type { Reply } from '../../../src/client/client.ts'
import { agentScopes } from '../../../src/contract/oauth.ts'
import { useAction, useCall } from '../../api/query.ts'
import { PublicCard, PublicPage } from '../../shell/public-page.tsx'
import { RightsFields, type Rights } from '../../shell/rights-fields.tsx'
import { SignedIn } from '../../shell/signed-in.tsx'
import { Button } from '../../ui/button.tsx'
import { Facts } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { readRequest, type OauthRequest } from './request.ts'

type Person = Reply<'getPerson'>
type Client = Reply<'findOauthClient'>

export function AuthorizePage() {
  const request = readRequest(location.search)
  return (
    <PublicPage title="Sign an agent in">
      {typeof request === 'string' ? (
        <Notice tone="warn">{request}</Notice>
      ) : (
        <SignedIn
          next={`/authorize${location.search}`}
          signedOut="Sign in first. Then decide what the agent may do."
          withKey="You are signed in with an API key. Only people sign agents in: sign in as yourself."
        >
          {(person) => <OfPerson person={person} request={request} />}
        </SignedIn>
      )}
    </PublicPage>
  )
}

function OfPerson({ person, request }: { person: Person; request: OauthRequest }) {
  const client = useCall('findOauthClient', { body: request.body })
  if (client.error !== null) return <ErrorNotice error={client.error} onRetry={() => void client.refetch()} />
  if (client.data === undefined) return <Skeleton rows={4} />
  return <Decision client={client.data} person={person} request={request} />
}

function Decision({ client, person, request }: { client: Client; person: Person; request: OauthRequest }) {
  const { body } = request
  const approve = useAction('approveOauthClient', ['listDeviceKeys', 'listApiKeys'])
  const deny = useAction('denyOauthClient')
  const [isLeaving, setIsLeaving] = useState(false)
  const current = person.accounts.find(({ isCurrent }) => isCurrent) ?? person.accounts[0]
  const [rights, setRights] = useState<Rights>({
    accountId: current?.accountId ?? '',
    scopes: request.scopes,
    days: String(limits.deviceKeyDaysDefault),
  })
  if (current === undefined)
    return <Notice tone="warn">You do not belong to an account yet. Accept an invitation first.</Notice>
  const scopes = agentScopes.filter((scope) => rights.scopes.includes(scope))
  const days = Number(rights.days)
  const leave = {
    onSuccess: ({ redirectUrl }: Reply<'denyOauthClient'>) => {
      setIsLeaving(true)
      location.assign(redirectUrl)
    },
  }
  const error = approve.error ?? deny.error
  const busy = approve.isPending || deny.isPending || isLeaving
  return (
    <PublicCard>
      <Agent client={client} />
      <RightsFields accounts={person.accounts} offered={agentScopes} rights={rights} onChange={setRights} />
      {error !== null && <ErrorNotice error={error} />}
      <div className="flex flex-wrap gap-2">
        <Button
          look="primary"
          busy={approve.isPending || isLeaving}
          disabled={busy || scopes.length === 0 || !(days >= 1)}
          onClick={() => approve.mutate({ body: { ...body, accountId: rights.accountId, scopes, days } }, leave)}
        >
          Approve
        </Button>
        <Button look="danger" busy={deny.isPending} disabled={busy} onClick={() => deny.mutate({ body }, leave)}>
          Deny
        </Button>
      </div>
    </PublicCard>
  )
}

function Agent({ client: { name, host, redirectUri } }: { client: Client }) {
  const target = new URL(redirectUri)
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(target.hostname)
  return (
    <>
      <h2 className="text-lg font-semibold break-words">Sign {name} in?</h2>
      <Facts
        facts={[
          ['Agent', name],
          ['Published by', host],
          ['Answer goes to', isLocal ? 'a program on this computer' : target.host || target.protocol],
        ]}
      />
      <Notice tone="warn">
        The agent tells its name itself. It can spend money of the account within its scopes. Approve only if you
        started this yourself.
      </Notice>
    </>
  )
}
