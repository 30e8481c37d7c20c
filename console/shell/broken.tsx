/**
 * A page that cannot go on: what the server said, or that the page itself is at fault. It stands in place of the shell,
 * so it has the way out: an account that was suspended could not be left otherwise.
 */
import { useMutation } from '@tanstack/react-query'
import { useRouter, type ErrorComponentProps } from '@tanstack/react-router'
import { isClientError, TransportError } from '../../src/client/error.ts'
import { signOut } from '../api/me.ts'
import { Button, ButtonLink } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { Page } from '../ui/page.tsx'
import { toast } from '../ui/toast.tsx'
import { Pending } from './pending.tsx'

export function Broken({ error, reset }: ErrorComponentProps) {
  const router = useRouter()
  const known = isClientError(error)
    ? error
    : new TransportError('garbled', `This page has failed: ${error instanceof Error ? error.message : String(error)}`)
  // What has failed is mostly the question who is signed in, which the router asks before it shows anything.
  const again = useMutation({
    mutationFn: async () => {
      await router.invalidate()
      reset()
    },
  })
  const leave = useMutation({
    mutationFn: signOut,
    onError: () => toast('The server does not answer, so you are still signed in. Try again.', 'bad'),
  })
  if (again.isPending) return <Pending />
  return (
    <main>
      <Page title="Something went wrong">
        <ErrorNotice error={known} onRetry={() => again.mutate()} />
        <div className="flex flex-wrap gap-2">
          <ButtonLink to="/sign-in">Sign in with another key</ButtonLink>
          <Button look="quiet" busy={leave.isPending} onClick={() => leave.mutate()}>
            Sign out
          </Button>
        </div>
      </Page>
    </main>
  )
}
