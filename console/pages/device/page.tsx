/**
 * Logging a device in: the person types the code that it shows, sees which one it is, and decides with what rights. The
 * code is never part of an address, so a link cannot approve anything.
 */
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { useAction } from '../../api/query.ts'
import { useFieldFocus } from '../../shell/code-form.tsx'
import { PublicCard, PublicPage } from '../../shell/public-page.tsx'
import { SignedIn } from '../../shell/signed-in.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { TextField } from '../../ui/field.tsx'
import { Decision } from './decision.tsx'

type Person = Reply<'getPerson'>

export function DevicePage() {
  return (
    <PublicPage title="Log a device in">
      <SignedIn
        next="/device"
        signedOut="Sign in first. Then type the code that the device shows."
        withKey="You are signed in with an API key. Only people log devices in: sign in as yourself."
      >
        {(person) => <OfPerson person={person} />}
      </SignedIn>
    </PublicPage>
  )
}

function OfPerson({ person }: { person: Person }) {
  const [outcome, setOutcome] = useState<string>()
  const [code, setCode] = useState('')
  const form = useFieldFocus()
  const find = useAction('findDeviceLogin')
  const again = (): void => {
    setOutcome(undefined)
    setCode('')
    find.reset()
  }
  if (outcome !== undefined) {
    return (
      <PublicCard>
        <p role="status" className="text-sm font-medium">
          {outcome}
        </p>
        <div className="flex flex-wrap gap-2">
          <Button onClick={again}>Log another device in</Button>
          <ButtonLink to="/security">See your devices</ButtonLink>
        </div>
      </PublicCard>
    )
  }
  if (find.data !== undefined) {
    return <Decision login={find.data} code={code} person={person} onDone={setOutcome} onBack={again} />
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    find.mutate({ body: { userCode: code } })
  }
  return (
    <PublicCard>
      <form ref={form} onSubmit={submit} className="flex flex-col gap-4">
        <TextField
          label="Code"
          required
          autoCapitalize="characters"
          spellCheck={false}
          maxLength={20}
          placeholder="BCDF-GHJK"
          value={code}
          onChange={(event) => setCode(event.target.value.toUpperCase())}
          hint="Eight letters, as berth login shows them. Type it only if you started the login yourself."
        />
        {find.error !== null && <ErrorNotice error={find.error} />}
        <Button look="primary" type="submit" busy={find.isPending} disabled={code.trim() === ''}>
          Continue
        </Button>
      </form>
    </PublicCard>
  )
}
