/** One invitation. Only the person whose address was invited sees what it offers; a button accepts it, never the link. */
import { getRouteApi } from '@tanstack/react-router'
import type { Reply } from '../../../src/client/client.ts'
import { OfferCard } from '../../shell/offer.tsx'
import { PublicCard, PublicPage } from '../../shell/public-page.tsx'
import { SignedIn, SignedInAs } from '../../shell/signed-in.tsx'
import { ButtonLink } from '../../ui/button.tsx'

type Person = Reply<'getPerson'>

const route = getRouteApi('/invitations/$id')

export function InvitationPage() {
  const { id } = route.useParams()
  const thisPage = `/invitations/${id}`
  return (
    <PublicPage title="Invitation">
      <SignedIn
        next={thisPage}
        signedOut="Sign in with the address that the invitation was sent to. It shows here then."
        withKey="You are signed in with an API key. Only people accept invitations: sign in with the address that it was sent to."
      >
        {(person) => {
          const offer = person.offers.find((one) => one.id === id)
          return (
            <>
              {offer === undefined ? <NotOffered person={person} /> : <OfferCard offer={offer} />}
              <SignedInAs email={person.email} action="Sign in as somebody else" next={thisPage} />
            </>
          )
        }}
      </SignedIn>
    </PublicPage>
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
