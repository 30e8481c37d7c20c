/**
 * The contract's schemas for forms. They load when the first form is shown; until then only the server checks a form,
 * and its errors show at the same fields.
 */
import { useEffect, useSyncExternalStore } from 'react'
import type { Api } from '../../src/contract/api.ts'

let api: Api | undefined
const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

async function load(): Promise<void> {
  if (api !== undefined) return
  const contract = await import('../../src/contract/api.ts')
  api = contract.api
  for (const listener of listeners) listener()
}

export function useBodySchema<Op extends keyof Api>(operation: Op): Api[Op]['body'] | undefined {
  const loaded = useSyncExternalStore(subscribe, () => api)
  useEffect(() => void load().catch(() => {}), [])
  return loaded?.[operation].body
}
