/**
 * Signing in: as a person with a code, a provider or a passkey where the server knows people, else with an API key. The
 * link printed by the first start also shows the key of the demo account.
 */
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useEffect } from 'react'
import { consoleFetch } from '../../api/client.ts'
import { useCall } from '../../api/query.ts'
import { useSignInWays } from '../../api/sign-in.ts'
import { PublicPage } from '../../shell/public-page.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Notice } from '../../ui/notice.tsx'
import { WELCOME_PATH } from '../../../src/contract/session.ts'
import type { ConsoleWelcome } from '../../../src/contract/session-body.ts'
import { FirstRun, KeyForm } from './key.tsx'
import { PersonSignIn } from './person.tsx'
import { nameOf, refusalText } from '../../shell/refusal.ts'

const route = getRouteApi('/sign-in')

interface Welcome extends ConsoleWelcome {
  /** The link in the address was used before, or has expired. */
  readonly isLinkUsed: boolean
}

const noWelcome: Welcome = { isLinkUsed: false }

export function SignInPage() {
  const welcome = useQuery({ queryKey: ['welcome'], queryFn: readWelcome, staleTime: Infinity, retry: false })
  const ways = useSignInWays()
  const { error, provider } = route.useSearch()
  const { refetch } = welcome
  // A link that is opened in a tab with this page changes only the part after the #.
  useEffect(() => {
    const read = (): void => void refetch()
    window.addEventListener('hashchange', read)
    return () => window.removeEventListener('hashchange', read)
  }, [refetch])
  const data = welcome.data ?? noWelcome
  const { demoKey } = data
  return (
    <PublicPage title={demoKey === undefined ? 'Sign in to Berth' : 'Welcome to Berth'}>
      {error !== undefined && <Notice tone="warn">{refusalText(error, nameOf(provider, ways.data))}</Notice>}
      {data.isLinkUsed && (
        <Notice tone="warn">
          <p className="font-medium">This link was used before, or has expired.</p>
          <p>
            {data.keyFile === undefined
              ? 'Sign in with a key.'
              : 'Sign in with the key of the demo account; its file is named below.'}{' '}
            If nobody has signed in with it yet, a restart of the server prints a new link.
          </p>
        </Notice>
      )}
      {welcome.isPending || ways.isPending ? (
        <div className="h-72" role="status" aria-label="Loading" />
      ) : demoKey !== undefined ? (
        <FirstRun demoKey={demoKey} welcome={data} />
      ) : ways.data?.people === true ? (
        <PersonSignIn ways={ways.data} welcome={data} />
      ) : (
        <KeyForm welcome={data} isOnly />
      )}
      <TermsLink />
    </PublicPage>
  )
}

/** Its place is kept, so that nothing moves when the link appears. */
function TermsLink() {
  const { data } = useCall('getTerms')
  const exists = data !== undefined && data.terms !== null
  return <p className="min-h-5 text-sm">{exists && <TextLink to="/terms">Terms</TextLink>}</p>
}

/** The link's token works once and is removed from the address bar as soon as it is used. */
async function readWelcome(): Promise<Welcome> {
  const [, token] = /^#welcome=([\w-]+)$/.exec(location.hash) ?? []
  if (token !== undefined) {
    history.replaceState(history.state, '', location.pathname + location.search)
    const body = JSON.stringify({ token })
    const headers = { 'Content-Type': 'application/json' }
    const opened = await consoleFetch(WELCOME_PATH, { method: 'POST', headers, body })
    if (opened.ok) return { ...((await opened.json()) as ConsoleWelcome), isLinkUsed: false }
  }
  const response = await consoleFetch(WELCOME_PATH)
  const welcome = response.ok ? ((await response.json()) as ConsoleWelcome) : {}
  return { ...welcome, isLinkUsed: token !== undefined }
}
