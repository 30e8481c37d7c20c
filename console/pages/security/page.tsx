/** How the person signs in, and where they are signed in. */
import { getRouteApi } from '@tanstack/react-router'
import { isPerson, useMe, usePerson } from '../../api/me.ts'
import { ProviderOutcome } from '../../shell/provider-outcome.tsx'
import { Answer } from '../../ui/answer.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Devices } from './devices.tsx'
import { Identities } from './identities.tsx'
import { Passkeys, RecoveryCodes } from './passkeys.tsx'
import { Sessions } from './sessions.tsx'
import { Ways } from './ways.tsx'

const route = getRouteApi('/shell/security')

export function SecurityPage() {
  const me = useMe()
  const { connected, error, provider } = route.useSearch()
  return (
    <Page intro="How you sign in to this console, and where you are signed in. It is about you, not about the account.">
      <ProviderOutcome
        error={error}
        provider={provider}
        success={connected === undefined ? undefined : 'Connected. You can sign in with this provider from now on.'}
      />
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
          <div className="grid items-start gap-5 lg:grid-cols-2">
            <Ways person={data} />
            <Identities session={data.session} />
            <Passkeys />
            <RecoveryCodes />
          </div>
          <Sessions />
          <Devices />
        </>
      )}
    </Answer>
  )
}
