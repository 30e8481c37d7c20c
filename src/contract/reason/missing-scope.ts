/**
 * The reason that the console shows beside what a key may not use. In a file of its own, so that the console's first load has
 * no other sentence.
 */
import { forbidden } from './reason-entry.ts'

export const missingScopeReason = forbidden(
  ({ scope }: { readonly scope: string }) => `This key does not have the scope ${scope}.`,
  'Use a key with this scope, or ask an account owner to create one.',
)
