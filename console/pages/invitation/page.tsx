/** One invitation. Only the person whose address was invited sees what it offers; a button accepts it, never the link. */
import { useMutation } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { isRefusal } from '../../../src/client/error.ts'
import type { Reply } from '../../../src/client/client.ts'
import { signOut, usePerson } from '../../api/me.ts'
import { isSignedOut } from '../../api/query.ts'
import { OfferCard } from '../../shell/offer.tsx'
import { PublicCard, PublicPage } from '../../shell/public-page.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'

type Person = Reply<'getPerson'>

const route = getRouteApi('/invitations/$id')

export function InvitationPage() {
  const person = usePerson()
  const { data, error } = person
  return (
    <PublicPage title="Invitation">
      {data !== undefined ? (
        <OfPerson person={data} />
      ) : isSignedOut(error) ? (
        <SignInFirst>Sign in with the address that the invitation was sent to. It shows here then.</SignInFirst>
      ) : isRefusal(error, 'person_session_required') ? (
        <SignInFirst>
          You are signed in with an API key. Only people accept invitations: sign in with the address that it was sent
          to.
        </SignInFirst>
      ) : error !== null ? (
        <ErrorNotice error={error} onRetry={() => void person.refetch()} isRead />
      ) : (
        <Skeleton rows={4} />
      )}
    </PublicPage>
  )
}

function SignInFirst({ children }: { children: string }) {
  const { id } = route.useParams()
  return (
    <PublicCard>
      <p className="text-sm">{children}</p>
      <ButtonLink look="primary" to="/sign-in" search={{ next: `/invitations/${id}` }}>
        Sign in
      </ButtonLink>
    </PublicCard>
  )
}

function OfPerson({ person }: { person: Person }) {
  const { id } = route.useParams()
  const offer = person.offers.find((one) => one.id === id)
  return (
    <>
      {offer === undefined ? <NotOffered person={person} /> : <OfferCard offer={offer} />}
      <SignedInAs email={person.email} />
    </>
  )
}

function NotOffered({ person }: { person: Person }) {
  return (
    <PublicCard>
      <p className="text-sm font-medium">There is no open invitation at this address for {person.email}.</p>
      <p className="text-sm text-muted">
        It may have been sent to another address, accepted, declined or revoked before, replaced by a newer one, or it
        has expired. Its sender can send another.
      </p>
      {person.accounts.length > 0 && <ButtonLink to="/">Go to the console</ButtonLink>}
    </PublicCard>
  )
}

function SignedInAs({ email }: { email: string }) {
  const { id } = route.useParams()
  const leave = useMutation({
    mutationFn: () => signOut(`/invitations/${id}`),
    onError: () => toast('Could not reach the server, so you are still signed in. Try again.', 'bad'),
  })
  return (
    <p className="text-sm text-muted">
      You are signed in as <span className="font-medium break-words text-ink">{email}</span>.{' '}
      <Button look="quiet" busy={leave.isPending} onClick={() => leave.mutate()}>
        Sign in as somebody else
      </Button>
    </p>
  )
}
