/** Shows the step-up dialog while a request waits for it. The dialog's code is loaded when it is first shown. */
import { lazy, Suspense, useSyncExternalStore } from 'react'
import { isAsked, listen } from '../api/step-up.ts'

const StepUpDialog = lazy(async () => ({ default: (await import('./step-up.tsx')).StepUpDialog }))

export function StepUpHost() {
  const isShown = useSyncExternalStore(listen, isAsked)
  return isShown ? (
    <Suspense>
      <StepUpDialog />
    </Suspense>
  ) : null
}
