/** The ways in which the person can sign in. */
import type { Reply } from '../../../src/client/client.ts'
import { Card, Facts } from '../../ui/card.tsx'

export function Ways({ person }: { person: Reply<'getPerson'> }) {
  return (
    <Card title="Email address">
      <Facts
        facts={[
          ['Address', person.email],
          ['Sign-in', 'A code is sent to this address. Invitations are accepted with it.'],
        ]}
      />
    </Card>
  )
}
