/** The ways in which the person can sign in. */
import type { Reply } from '../../../src/client/client.ts'
import { localTime } from '../../../src/view/time.ts'
import { TextLink } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'

export function Ways({ person }: { person: Reply<'getPerson'> }) {
  return (
    <Card title="Email address">
      <Facts
        facts={[
          ['Address', person.email],
          ['Sign-in', 'A code is sent to this address. Invitations are accepted with it.'],
          ['Terms', person.terms.newest !== null && <AcceptedTerms key="terms" terms={person.terms} />],
        ]}
      />
    </Card>
  )
}

function AcceptedTerms({ terms: { newest, accepted, acceptedAt } }: Pick<Reply<'getPerson'>, 'terms'>) {
  return (
    <>
      <TextLink to="/terms">Version {newest}</TextLink>
      {accepted === newest && acceptedAt !== null ? `, accepted ${localTime(acceptedAt)}` : ', not accepted yet'}
    </>
  )
}
