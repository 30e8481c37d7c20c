/** The page after a step-up at a provider in another tab. It notifies the tab that waits. */
import { getRouteApi } from '@tanstack/react-router'
import { useEffect } from 'react'
import { useSignInWays } from '../../api/sign-in.ts'
import { announceProof } from '../../api/step-up.ts'
import { PublicPage } from '../../shell/public-page.tsx'
import { nameOf, refusalText } from '../../shell/refusal.ts'
import { ButtonLink } from '../../ui/button.tsx'
import { Notice } from '../../ui/notice.tsx'

const route = getRouteApi('/confirmed')

export function ConfirmedPage() {
  const { error, provider } = route.useSearch()
  const ways = useSignInWays().data
  useEffect(() => {
    if (error !== undefined) return
    announceProof()
    window.close()
  }, [error])
  return (
    <PublicPage title={error === undefined ? 'Confirmed' : 'Not confirmed'}>
      {error === undefined ? (
        <p className="text-muted">You can close this tab. What you were doing goes on in the other one.</p>
      ) : (
        <Notice tone="warn">{refusalText(error, nameOf(provider, ways))}</Notice>
      )}
      <div>
        <ButtonLink to="/">Go to the console</ButtonLink>
      </div>
    </PublicPage>
  )
}
