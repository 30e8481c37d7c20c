/** The origins of web pages that may call with a key. */
import { ANY_ORIGIN } from '../contract/origin.ts'

export function allowsOrigin(allowedOrigins: readonly string[], origin: string): boolean {
  return allowedOrigins.includes(ANY_ORIGIN) || allowedOrigins.includes(origin)
}

/**
 * Returns the requested origins that a key cannot give to another key. Everybody who opens a page can take the key out
 * of it, so a key for some pages makes no keys for other pages. A key for no page is as secret as its holder keeps it,
 * and may name any origin.
 */
export function originsBeyond(keyOrigins: readonly string[], requested: readonly string[]): string[] {
  return keyOrigins.length === 0 ? [] : requested.filter((origin) => !allowsOrigin(keyOrigins, origin))
}

/**
 * Tells whether a browser can only have sent this origin for a web page: a site, or a page without an origin (`null`).
 * Other schemes are those of installed applications, whose requests no browser judges.
 */
export function isWebOrigin(origin: string): boolean {
  return origin === 'null' || /^https?:/i.test(origin)
}
