/** A choice that this browser remembers. Storage can be full or switched off; then the choice lasts for this page. */
import { useState } from 'react'
import type { z } from 'zod'

function readStored<T>(name: string, schema: z.ZodType<T>, otherwise: T): T {
  try {
    const text = localStorage.getItem(name)
    return text === null ? otherwise : (schema.safeParse(JSON.parse(text)).data ?? otherwise)
  } catch {
    return otherwise
  }
}

/** Whether it was stored. */
function writeStored(name: string, value: unknown): boolean {
  try {
    localStorage.setItem(name, JSON.stringify(value))
    return true
  } catch {
    return false
  }
}

export function useStored<T>(name: string, schema: z.ZodType<T>, otherwise: T): [T, (value: T) => void] {
  const [value, setValue] = useState(() => readStored(name, schema, otherwise))
  return [
    value,
    (next) => {
      setValue(next)
      writeStored(name, next)
    },
  ]
}
