/** One step of a sign-in at a time, and the error of the last one. */
import { useState } from 'react'
import type { ClientError } from '../../src/client/error.ts'
import { signInError } from '../api/sign-in.ts'

interface Attempts<Step> {
  /** Never rejects. */
  readonly attempt: (step: Step, act: () => Promise<void>) => Promise<void>
  /** The step that runs. */
  readonly busy: Step | undefined
  readonly error: ClientError | null
}

export function useAttempt<Step extends string>(): Attempts<Step> {
  const [busy, setBusy] = useState<Step>()
  const [error, setError] = useState<ClientError | null>(null)
  const attempt = async (step: Step, act: () => Promise<void>): Promise<void> => {
    setBusy(step)
    setError(null)
    try {
      await act()
    } catch (problem) {
      setError(signInError(problem))
    }
    setBusy(undefined)
  }
  return { attempt, busy, error }
}
