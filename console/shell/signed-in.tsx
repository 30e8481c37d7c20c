/** Parts of public pages for the person who is signed in. Others are led to the sign-in page, which leads back. */
import { useMutation } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { isRefusal } from '../../src/client/error.ts'
import type { Reply } from '../../src/client/client.ts'
import { signOut, usePerson } from '../api/me.ts'
import { isSignedOut } from '../api/query.ts'
import { Button, ButtonLink } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { toast } from '../ui/toast.tsx'
import { PublicCard } from './public-page.tsx'

interface SignedInProps {
  /** The page to come back to. */
  readonly next: string
  /** The text for somebody who is not signed in. */
  readonly signedOut: string
  /** The text for somebody who is signed in with an API key. */
  readonly withKey: string
  readonly children: (person: Reply<'getPerson'>) => ReactNode
}

export function SignedIn({ next, signedOut, withKey, children }: SignedInProps) {
  const person = usePerson()
  const { data, error } = person
  if (data !== undefined) return children(data)
  if (isSignedOut(error)) return <SignInFirst next={next}>{signedOut}</SignInFirst>
  if (isRefusal(error, 'person_session_required')) return <SignInFirst next={next}>{withKey}</SignInFirst>
  if (error !== null) return <ErrorNotice error={error} onRetry={() => void person.refetch()} isRead />
  return <Skeleton rows={4} />
}

function SignInFirst({ next, children }: { next: string; children: string }) {
  return (
    <PublicCard>
      <p className="text-sm">{children}</p>
      <ButtonLink look="primary" to="/sign-in" search={{ next }}>
        Sign in
      </ButtonLink>
    </PublicCard>
  )
}

interface SignedInAsProps {
  readonly email: string
  /** The label of the button that signs out. */
  readonly action: string
  /** The page to open after the next sign-in. */
  readonly next?: string
}

export function SignedInAs({ email, action, next }: SignedInAsProps) {
  const leave = useMutation({
    mutationFn: () => signOut(next),
    onError: () => toast('Could not reach the server, so you are still signed in. Try again.', 'bad'),
  })
  return (
    <p className="text-sm text-muted">
      You are signed in as <span className="font-medium break-words text-ink">{email}</span>.{' '}
      <Button look="quiet" busy={leave.isPending} onClick={() => leave.mutate()}>
        {action}
      </Button>
    </p>
  )
}
