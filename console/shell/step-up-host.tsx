/** Shows the step-up dialog while a request waits for it. The dialog's code is loaded when it is first shown. */
import { lazy, Suspense, useSyncExternalStore } from 'react'
import { askedProof, listen } from '../api/step-up.ts'

const StepUpDialog = lazy(async () => ({ default: (await import('./step-up.tsx')).StepUpDialog }))

export function StepUpHost() {
  const proof = useSyncExternalStore(listen, askedProof)
  return proof === undefined ? null : (
    <Suspense>
      <StepUpDialog proof={proof} />
    </Suspense>
  )
}
