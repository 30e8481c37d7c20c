/**
 * Asks the person to prove again who they are, for operations that need a recent sign-in, or to show a passkey
 * (api/step-up.ts). It is outside of the router, so its links are plain ones.
 */
import { useEffect, useState } from 'react'
import type { Reply } from '../../src/client/client.ts'
import type { SignInWays } from '../../src/contract/session-body.ts'
import { usePerson } from '../api/me.ts'
import { hasPasskeys } from '../api/passkey.ts'
import { useCall } from '../api/query.ts'
import { providerUrl, redeemCode, sendCode, useSignInWays } from '../api/sign-in.ts'
import { CONFIRMED_PATH, listenForProof, settle, type Proof } from '../api/step-up.ts'
import { Answer } from '../ui/answer.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { CodeForm } from './code-form.tsx'
import { PasskeyButton } from './passkey-button.tsx'
import { RecoveryCode } from './recovery-code.tsx'

type Person = Reply<'getPerson'>

const prove = (): void => settle(true)

export function StepUpDialog({ proof }: { proof: Proof }) {
  return (
    <Dialog title="Confirm that it is you" onClose={() => settle(false)}>
      <div className="flex flex-col gap-4">{proof === 'factor' ? <WithFactor /> : <WithSignIn />}</div>
    </Dialog>
  )
}

/** A code by email is not enough: whoever reads the mail could have asked for it. */
function WithFactor() {
  const factors = useCall('listFactors')
  return (
    <Answer of={factors}>
      {({ passkeys }) =>
        passkeys.length === 0 ? (
          <p className="text-sm">
            This needs a passkey, and you have none. Add one under{' '}
            <a href="/security" className="font-medium text-accent underline">
              Security
            </a>
            , then try again.
          </p>
        ) : (
          <>
            <p className="text-sm text-muted">
              This needs your passkey or a recovery code. What you were doing goes on afterwards.
            </p>
            {!hasPasskeys() && <p className="text-sm">This browser has no passkeys here. They need HTTPS.</p>}
            <PasskeyButton onProved={prove} />
            <RecoveryCode onProved={prove} />
          </>
        )
      }
    </Answer>
  )
}

function WithSignIn() {
  const person = usePerson()
  const ways = useSignInWays()
  return (
    <>
      <p className="text-sm text-muted">
        This needs a sign-in of the last 15 minutes. What you were doing goes on afterwards.
      </p>
      <Answer of={person}>
        {(signedIn) => <Answer of={ways}>{(signInWays) => <Ways person={signedIn} ways={signInWays} />}</Answer>}
      </Answer>
    </>
  )
}

function Ways({ person, ways }: { person: Person; ways: SignInWays }) {
  // The provider of this session comes first.
  const providers = ways.providers.toSorted(
    (one, other) => Number(other.id === person.session.providerId) - Number(one.id === person.session.providerId),
  )
  return (
    <>
      {ways.passkey && <PasskeyButton onProved={prove} />}
      {ways.passkey && <RecoveryCode onProved={prove} />}
      {ways.code && <CodeForm address={person.email} onSend={sendCode} onRedeem={redeem} action="Confirm" />}
      {providers.map(({ id, name, isDown }) => (
        <ProviderButton key={id} id={id} name={name} isDown={isDown} />
      ))}
    </>
  )
}

async function redeem(code: string): Promise<void> {
  await redeemCode(code)
  settle(true)
}

/** The provider's page opens in another tab: this one keeps what was typed. */
function ProviderButton({ id, name, isDown }: { id: string; name: string; isDown: boolean }) {
  const [isOpen, setOpen] = useState(false)
  useEffect(() => (isOpen ? listenForProof(() => settle(true)) : undefined), [isOpen])
  const open = (): void => {
    setOpen(true)
    window.open(providerUrl(id, CONFIRMED_PATH, 'step-up'), '_blank', 'noopener')
  }
  return (
    <div>
      <Button className="w-full" onClick={open}>
        Continue with {name} in another tab
      </Button>
      {isDown && <p className="mt-1 text-sm text-warn">{name} is not reachable at the moment. Other ways work.</p>}
      {isOpen && (
        <p role="status" className="mt-1 text-sm text-muted">
          Waiting for the other tab …
        </p>
      )}
    </div>
  )
}
