/**
 * The person is signed in, but may not act in the account: they have none yet, or it requires a second factor or a
 * provider. What they can do about that, and their other accounts.
 */
import { getRouteApi, Navigate, useRouter } from '@tanstack/react-router'
import { useEffect } from 'react'
import { isRefusal, type ClientError } from '../../../src/client/error.ts'
import type { Reply } from '../../../src/client/client.ts'
import { roleLabels } from '../../../src/view/account.ts'
import { isUnmet, noteNewSession, usePerson } from '../../api/me.ts'
import { isSignedOut, useAction, useCall } from '../../api/query.ts'
import { goToProvider, useSignInWays } from '../../api/sign-in.ts'
import { Button } from '../../ui/button.tsx'
import { Answer } from '../../ui/answer.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { OfferCard } from '../../shell/offer.tsx'
import { AddPasskey } from '../../shell/add-passkey.tsx'
import { PasskeyButton } from '../../shell/passkey-button.tsx'
import { RecoveryCode } from '../../shell/recovery-code.tsx'
import { PublicCard, PublicPage } from '../../shell/public-page.tsx'
import { SignedInAs } from '../../shell/signed-in.tsx'

type Person = Reply<'getPerson'>

const route = getRouteApi('/access')

export function AccessPage() {
  const { next = '/' } = route.useSearch()
  const me = useCall('getMe')
  if (isUnmet(me.error)) return <Unmet error={me.error} next={next} />
  if (me.data !== undefined) return <Onward next={next} />
  if (isSignedOut(me.error)) return <Navigate to="/sign-in" search={{ next }} replace />
  return (
    <PublicPage title="Sign in to Berth">
      {me.error === null ? (
        <Skeleton rows={4} />
      ) : (
        <ErrorNotice error={me.error} onRetry={() => void me.refetch()} isRead />
      )}
    </PublicPage>
  )
}

function Onward({ next }: { next: string }) {
  const router = useRouter()
  useEffect(() => void router.navigate({ href: next, replace: true }), [router, next])
  return null
}

interface UnmetProps {
  readonly error: ClientError
  /** The page that was asked for. */
  readonly next: string
}

function Unmet({ error, next }: UnmetProps) {
  const person = usePerson()
  const title = isRefusal(error, 'no_account')
    ? 'Choose an account'
    : isRefusal(error, 'factor_required')
      ? 'A second factor is required'
      : 'Another way to sign in is required'
  return (
    <PublicPage title={title}>
      <Answer of={person}>
        {(data) => (
          <>
            <Remedy error={error} person={data} next={next} />
            {data.offers.map((offer) => (
              <OfferCard key={offer.id} offer={offer} />
            ))}
            <OtherAccounts person={data} />
            <SignedInAs email={data.email} action="Sign out" />
          </>
        )}
      </Answer>
    </PublicPage>
  )
}

function Remedy({ error, person, next }: UnmetProps & { person: Person }) {
  const current = person.accounts.find(({ isCurrent }) => isCurrent)
  if (isRefusal(error, 'no_account')) {
    return person.offers.length > 0 ? (
      <p className="text-muted">These invitations wait for you.</p>
    ) : (
      <PublicCard>
        <p className="text-sm font-medium">{error.message}</p>
        <p className="text-sm text-muted">
          An invitation to {person.email} shows here. Owners send them on the page Members of their account.
        </p>
      </PublicCard>
    )
  }
  if (isRefusal(error, 'sso_required')) return <Provider error={error} id={current?.providerId ?? null} next={next} />
  return <Factor error={error} next={next} />
}

/** Somebody without a passkey adds one, which counts as shown. */
function Factor({ error, next }: UnmetProps) {
  const go = (): void => location.assign(next)
  return (
    <PublicCard>
      <p className="text-sm">{error.message}</p>
      <PasskeyButton onProved={go} />
      <RecoveryCode onProved={go} />
      <AddPasskey onAdded={go} />
    </PublicCard>
  )
}

function Provider({ error, id, next }: UnmetProps & { id: string | null }) {
  const ways = useSignInWays().data
  const name = ways?.providers.find((one) => one.id === id)?.name ?? 'the provider of the account'
  return (
    <PublicCard>
      <p className="text-sm">{error.message}</p>
      {id !== null && (
        <Button look="primary" onClick={() => goToProvider(id, next)}>
          Continue with {name}
        </Button>
      )}
    </PublicCard>
  )
}

function OtherAccounts({ person }: { person: Person }) {
  const change = useAction('switchAccount')
  const others = person.accounts.filter(({ isCurrent }) => !isCurrent)
  if (others.length === 0) return null
  const choose = (accountId: string): void =>
    change.mutate(
      { body: { accountId } },
      {
        onSuccess: () => {
          noteNewSession()
          location.assign('/')
        },
      },
    )
  return (
    <PublicCard>
      <h2 className="text-base font-semibold">Your other accounts</h2>
      <ul className="flex flex-col gap-2">
        {others.map(({ accountId, accountName, role }) => (
          <li key={accountId} className="flex items-center justify-between gap-3 text-sm">
            <span className="min-w-0 truncate">
              {accountName} <span className="text-muted">({roleLabels[role]})</span>
            </span>
            <Button busy={change.isPending} aria-label={`Use ${accountName}`} onClick={() => choose(accountId)}>
              Use
            </Button>
          </li>
        ))}
      </ul>
      {change.error !== null && <ErrorNotice error={change.error} />}
    </PublicCard>
  )
}
