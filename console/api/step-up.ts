/**
 * Some operations need a sign-in of the last minutes. A dialog (shell/step-up.tsx) asks the person to prove who they are;
 * requests that were refused meanwhile wait for it, and are sent again.
 */
import { openTabs } from './tabs.ts'

/** The page to which a provider sends the browser after a step-up. */
export const CONFIRMED_PATH = '/confirmed'

let waiting: ReadonlyArray<(isProved: boolean) => void> = []
const listeners = new Set<() => void>()

function set(next: typeof waiting): void {
  waiting = next
  for (const listener of listeners) listener()
}

/** Resolves to whether the person has proved who they are. */
export function confirmPerson(): Promise<boolean> {
  return new Promise((resolve) => set([...waiting, resolve]))
}

/** Closes the dialog. */
export function settle(isProved: boolean): void {
  const requests = waiting
  set([])
  for (const resolve of requests) resolve(isProved)
}

export function isAsked(): boolean {
  return waiting.length > 0
}

export function listen(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

const CHANNEL = 'berth.step-up'

/** From the tab in which a provider has confirmed the person. */
export function announceProof(): void {
  const tabs = openTabs<'proved'>(CHANNEL)
  tabs.send('proved')
  tabs.close()
}

/** Returns a function that stops waiting. */
export function listenForProof(onProof: () => void): () => void {
  const tabs = openTabs<'proved'>(CHANNEL)
  tabs.listen(onProof)
  return () => tabs.close()
}
