/** The ways to sign in as a person, and an API key as the last of them. */
import { getRouteApi } from '@tanstack/react-router'
import type { ConsoleWelcome, SignInWays } from '../../../src/contract/session-body.ts'
import { hasPasskeys } from '../../api/passkey.ts'
import { goToProvider, redeemCode, sendCode } from '../../api/sign-in.ts'
import { CodeForm } from '../../shell/code-form.tsx'
import { PasskeyButton } from '../../shell/passkey-button.tsx'
import { PublicCard } from '../../shell/public-page.tsx'
import { Button } from '../../ui/button.tsx'
import { useEnter, useNext } from './enter.ts'
import { KeyForm } from './key.tsx'

const route = getRouteApi('/sign-in')

const signUpNotes = {
  closed: 'Only people whom an account owner or the operator has added can sign in.',
  invited: 'New here? Ask an account owner or the operator for an invitation.',
  open: 'New here? Signing in opens an account for you.',
} as const satisfies Record<SignInWays['signUp'], string>

export function PersonSignIn({ ways, welcome }: { ways: SignInWays; welcome: ConsoleWelcome }) {
  const enter = useEnter()
  return (
    <>
      <PublicCard>
        {ways.code && <CodeSignIn />}
        {ways.code && (ways.providers.length > 0 || (ways.passkey && hasPasskeys())) && <Or />}
        <OtherWays ways={ways} />
        {ways.passkey && <PasskeyButton onProved={enter} />}
        <p className="text-sm text-muted">{signUpNotes[ways.signUp]}</p>
      </PublicCard>
      <details className="text-sm">
        <summary className="cursor-pointer font-medium">Sign in with an API key</summary>
        <div className="mt-3">
          <KeyForm welcome={welcome} />
        </div>
      </details>
    </>
  )
}

function CodeSignIn() {
  const enter = useEnter()
  const redeem = async (code: string): Promise<void> => {
    await redeemCode(code)
    await enter()
  }
  // A provider did not vouch for its address, so the server has sent a code there.
  const { step } = route.useSearch()
  return <CodeForm onSend={sendCode} onRedeem={redeem} action="Sign in" isSent={step === 'code'} />
}

function OtherWays({ ways: { providers } }: { ways: SignInWays }) {
  const next = useNext()
  if (providers.length === 0) return null
  return (
    <ul className="flex flex-col gap-2">
      {providers.map(({ id, name, isDown }) => (
        <li key={id}>
          <Button className="w-full" onClick={() => goToProvider(id, next)}>
            Continue with {name}
          </Button>
          {isDown && <p className="mt-1 text-sm text-warn">{name} is not reachable at the moment. Other ways work.</p>}
        </li>
      ))}
    </ul>
  )
}

function Or() {
  return (
    <div className="flex items-center gap-3 text-sm text-muted">
      <span className="h-px flex-1 bg-line" />
      or
      <span className="h-px flex-1 bg-line" />
    </div>
  )
}
