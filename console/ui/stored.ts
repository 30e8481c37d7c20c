/** A choice that this browser remembers. Storage can be full or switched off; then the choice lasts for this page. */
import { useState } from 'react'

/** undefined: the stored value is invalid. */
type Read<T> = (stored: unknown) => T | undefined

export function readStored<T>(name: string, read: Read<T>, otherwise: T): T {
  try {
    const text = localStorage.getItem(name)
    return text === null ? otherwise : (read(JSON.parse(text)) ?? otherwise)
  } catch {
    return otherwise
  }
}

/** Returns whether the value was stored. */
export function writeStored(name: string, value: unknown): boolean {
  try {
    localStorage.setItem(name, JSON.stringify(value))
    return true
  } catch {
    return false
  }
}

export function useStored<T>(name: string, read: Read<T>, otherwise: T): [T, (value: T) => void] {
  const [value, setValue] = useState(() => readStored(name, read, otherwise))
  return [
    value,
    (next) => {
      setValue(next)
      writeStored(name, next)
    },
  ]
}
