/** The newest terms of the operator, for everybody. A person who is signed in accepts them with a button. */
import { isRefusal } from '../../../src/client/error.ts'
import type { Reply } from '../../../src/client/client.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import { refresh, useAction, useCall } from '../../api/query.ts'
import { PublicCard, PublicPage } from '../../shell/public-page.tsx'
import { SignedIn } from '../../shell/signed-in.tsx'
import { TermsText } from '../../shell/terms-text.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'

type Person = Reply<'getPerson'>
type Terms = NonNullable<Reply<'getTerms'>['terms']>

export function TermsPage() {
  const newest = useCall('getTerms')
  return (
    <PublicPage title="Terms">
      <Answer of={newest} skeleton={<Skeleton rows={8} />}>
        {({ terms }) =>
          terms === null ? (
            <PublicCard>
              <p className="text-sm">The operator of this server has published no terms.</p>
            </PublicCard>
          ) : (
            <>
              <p className="text-sm text-muted">
                Version {terms.version}, published {localDate(terms.createdAt)}
              </p>
              <PublicCard>
                <TermsText body={terms.body} />
              </PublicCard>
              <SignedIn
                next="/terms"
                signedOut="Sign in to accept these terms."
                withKey="You are signed in with an API key. Only people accept terms: sign in as yourself, if this server has that."
              >
                {(person) => <OfPerson terms={terms} person={person} />}
              </SignedIn>
            </>
          )
        }
      </Answer>
    </PublicPage>
  )
}

function OfPerson({ terms, person }: { terms: Terms; person: Person }) {
  const { accepted, acceptedAt } = person.terms
  const isAccepted = accepted === terms.version
  return (
    <PublicCard>
      {accepted !== null && acceptedAt !== null && (
        <p className="text-sm font-medium" role="status">
          You accepted {isAccepted ? 'these terms' : `version ${accepted}`} on {localTime(acceptedAt)}.
        </p>
      )}
      {isAccepted ? <ButtonLink to="/">Go to the console</ButtonLink> : <Accept terms={terms} person={person} />}
    </PublicCard>
  )
}

function Accept({ terms: { version }, person }: { terms: Terms; person: Person }) {
  const accept = useAction('acceptTerms', ['getPerson'])
  const owned = person.accounts.filter(({ role }) => role === 'owner').map(({ accountName }) => accountName)
  const submit = (): void =>
    accept.mutate(
      { body: { version } },
      {
        onSuccess: () => toast('You accepted the terms'),
        // The page then shows the newest version.
        onError: (error) => {
          if (isRefusal(error, 'terms_outdated')) void refresh(['getTerms', 'getPerson'])
        },
      },
    )
  return (
    <>
      <p className="text-sm text-muted">
        {owned.length === 0
          ? 'You are not an owner of an account. New orders wait until an owner accepts these terms.'
          : `You accept as an owner of ${owned.join(', ')}. New orders of an account wait until one of its owners accepts.`}{' '}
        What runs goes on.
      </p>
      {accept.error !== null && <ErrorNotice error={accept.error} />}
      <div>
        <Button look="primary" busy={accept.isPending} onClick={submit}>
          Accept
        </Button>
      </div>
    </>
  )
}
