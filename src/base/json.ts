/**
 * JSON from outside: decodes its bytes, and checks what no schema covers. Every path that accepts a body uses these, so
 * all paths accept the same bodies.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import { limits } from './limits.ts'
import type { Issue } from './issue.ts'

/** undefined: not UTF-8. Never inserts replacement characters: the text would differ from what was sent. */
export function decodeUtf8(bytes: Buffer): string | undefined {
  // Node decodes latin1 many times faster than UTF-8, and most bodies are ASCII.
  if (isAscii(bytes)) return bytes.toString('latin1')
  return isUtf8(bytes) ? bytes.toString('utf8') : undefined
}

/** Counts the members of all objects in the value. -1: `findFlaw` must check the value in detail. */
export function countMembers(value: unknown, depth = 0): number {
  if (typeof value === 'string') return isWellFormed(value) ? 0 : -1
  if (typeof value === 'number') return Number.isFinite(value) ? 0 : -1
  if (typeof value !== 'object' || value === null) return 0
  if (depth >= limits.jsonDepth) return -1
  let members = 0
  if (Array.isArray(value)) {
    for (const entry of value) {
      const inside = countMembers(entry, depth + 1)
      if (inside === -1) return -1
      members += inside
    }
    return members
  }
  for (const key in value) {
    if (!isWellFormed(key) || key === '__proto__' || key === 'constructor') return -1
    const inside = countMembers((value as Record<string, unknown>)[key], depth + 1)
    if (inside === -1) return -1
    members += inside + 1
  }
  return members
}

/**
 * The first flaw that no schema covers: PostgreSQL stores neither U+0000 nor a lone surrogate, a number that is too
 * large becomes infinite and then null, and unlimited nesting overflows the stack of every recursive function.
 */
export function findFlaw(value: unknown): Issue | undefined {
  return countMembers(value) === -1 ? findFlawAt(value, []) : undefined
}

function findFlawAt(value: unknown, path: ReadonlyArray<string | number>): Issue | undefined {
  if (typeof value === 'string') return findBadCharacter(value, path)
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return { code: 'invalid_format', path, message: 'Must be a number below 1.8e308' }
  }
  if (typeof value !== 'object' || value === null) return undefined
  if (path.length >= limits.jsonDepth) {
    return { code: 'too_deep', path: path.slice(0, 1), message: `Nested more than ${limits.jsonDepth} levels deep` }
  }
  for (const [key, inside] of Object.entries(value)) {
    const flaw =
      findBadCharacter(key, path) ??
      findFlawAt(inside, [...path, Array.isArray(value) ? Number.parseInt(key, 10) : key])
    if (flaw !== undefined) return flaw
  }
  return undefined
}

function isWellFormed(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

function findBadCharacter(text: string, path: ReadonlyArray<string | number>): Issue | undefined {
  if (text.includes('\0')) return { code: 'invalid_format', path, message: 'Must not contain the character U+0000' }
  if (text.isWellFormed()) return undefined
  return { code: 'invalid_format', path, message: 'Must not contain an unpaired surrogate' }
}

/** Whether a value of JSON is an object. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
