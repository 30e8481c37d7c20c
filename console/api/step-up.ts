/**
 * Some operations need a sign-in of the last minutes, or one that showed a passkey. A dialog (shell/step-up.tsx) asks the
 * person for it; requests that were refused meanwhile wait for it, and are sent again.
 */
import { isRefusal } from '../../src/client/error.ts'
import { openTabs } from './tabs.ts'

/** The page to which a provider sends the browser after a step-up. */
export const CONFIRMED_PATH = '/confirmed'

/** `factor`: a passkey or a recovery code, which is a recent sign-in too. */
export type Proof = 'sign-in' | 'factor'

interface Waiting {
  readonly proof: Proof
  readonly resolve: (isProved: boolean) => void
}

let waiting: readonly Waiting[] = []
const listeners = new Set<() => void>()

function set(next: typeof waiting): void {
  waiting = next
  for (const listener of listeners) listener()
}

/** Resolves to whether the person has proved who they are. */
export function confirmPerson(proof: Proof = 'sign-in'): Promise<boolean> {
  return new Promise((resolve) => set([...waiting, { proof, resolve }]))
}

/** Sends again what was refused, after the person has proved what it needs. */
export async function sendWithProof<T>(send: () => Promise<T>): Promise<T> {
  try {
    return await send()
  } catch (error) {
    const proof = proofFor(error)
    if (proof === undefined || !(await confirmPerson(proof))) throw error
    if (proof === 'factor') return send()
  }
  try {
    return await send()
  } catch (error) {
    // A code by email is a recent sign-in, but shows no passkey.
    if (proofFor(error) !== 'factor' || !(await confirmPerson('factor'))) throw error
    return send()
  }
}

function proofFor(error: unknown): Proof | undefined {
  if (isRefusal(error, 'recent_sign_in_required')) return 'sign-in'
  return isRefusal(error, 'passkey_required') ? 'factor' : undefined
}

/** Closes the dialog. */
export function settle(isProved: boolean): void {
  const requests = waiting
  set([])
  for (const { resolve } of requests) resolve(isProved)
}

/** Returns what the dialog asks for; undefined: it is closed. A factor is enough for all that wait. */
export function askedProof(): Proof | undefined {
  return waiting.find(({ proof }) => proof === 'factor')?.proof ?? waiting[0]?.proof
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
