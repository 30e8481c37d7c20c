/** How the person signs in, and where they are signed in. */
import { isPerson, useMe, usePerson } from '../../api/me.ts'
import { Answer } from '../../ui/answer.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Sessions } from './sessions.tsx'
import { Ways } from './ways.tsx'

export function SecurityPage() {
  const me = useMe()
  return (
    <Page intro="How you sign in to this console, and where you are signed in. It is about you, not about the account.">
      {isPerson(me) ? <OfPerson /> : <WithKey />}
    </Page>
  )
}

function WithKey() {
  return (
    <Empty
      title="You are signed in with an API key"
      action={
        <ButtonLink look="primary" to="/sign-in" search={{ next: '/security' }}>
          Sign in as yourself
        </ButtonLink>
      }
    >
      A key belongs to its account and is managed under API keys. Sign in as a person to see your sessions and ways to
      sign in, if this server has them.
    </Empty>
  )
}

function OfPerson() {
  const person = usePerson()
  return (
    <Answer of={person}>
      {(data) => (
        <>
          <Ways person={data} />
          <Sessions />
        </>
      )}
    </Answer>
  )
}
