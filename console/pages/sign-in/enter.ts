/** Opens the requested page after a sign-in. */
import { getRouteApi, useRouter } from '@tanstack/react-router'
import { noteNewSession } from '../../api/me.ts'

const route = getRouteApi('/sign-in')

/** Returns a function to call once the browser has its session. */
export function useEnter(otherwise = '/'): () => Promise<void> {
  const router = useRouter()
  const next = useNext(otherwise)
  return async () => {
    noteNewSession()
    await router.navigate({ href: next, replace: true })
  }
}

/** Returns the requested page. */
export function useNext(otherwise = '/'): string {
  return route.useSearch().next ?? otherwise
}
