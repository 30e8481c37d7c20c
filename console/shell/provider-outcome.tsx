/** The result of a visit to a provider, which the address of the page names. */
import { useSignInWays } from '../api/sign-in.ts'
import { Notice } from '../ui/notice.tsx'
import { nameOf, refusalText } from './refusal.ts'

interface ProviderOutcomeProps {
  /** The reason of a failure. */
  readonly error: string | undefined
  readonly provider: string | undefined
  /** Shown when it succeeded. */
  readonly success: string | undefined
}

export function ProviderOutcome({ error, provider, success }: ProviderOutcomeProps) {
  const ways = useSignInWays().data
  if (error !== undefined) return <Notice tone="warn">{refusalText(error, nameOf(provider, ways))}</Notice>
  return success === undefined ? null : <Notice>{success}</Notice>
}
