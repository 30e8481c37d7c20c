/** Opens the requested page after a sign-in. */
import { getRouteApi, useRouter } from '@tanstack/react-router'
import { useState } from 'react'
import type { ClientError } from '../../../src/client/error.ts'
import { signInError } from '../../api/sign-in.ts'

const route = getRouteApi('/sign-in')

interface Entering {
  /** Signs in with the function, and opens the page. */
  readonly enter: (prove: () => Promise<void>) => Promise<void>
  readonly busy: boolean
  readonly error: ClientError | null
}

export function useEnter(then = '/'): Entering {
  const router = useRouter()
  const { next } = route.useSearch()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ClientError | null>(null)
  const enter = async (prove: () => Promise<void>): Promise<void> => {
    setBusy(true)
    setError(null)
    try {
      await prove()
      await router.navigate({ href: next ?? then, replace: true })
    } catch (problem) {
      setError(signInError(problem))
      setBusy(false)
    }
  }
  return { enter, busy, error }
}

/** The page that was asked for. */
export function useNext(): string {
  return route.useSearch().next ?? '/'
}
