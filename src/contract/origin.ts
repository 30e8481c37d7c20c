/** Origins of web pages, as the `Origin` header has them. */
import { z } from 'zod'

/** The schema has the same limit. */
export const MAX_ORIGINS = 20
const MAX_ORIGIN_CHARS = 200
/** Stands for every origin. */
export const ANY_ORIGIN = '*'

export const originText = z
  .string()
  .max(MAX_ORIGIN_CHARS)
  .refine(isOrigin, 'Must be * or an origin such as https://app.example.com, in lowercase and without a path')

/** Origins are compared as text, so one that a browser writes in another way would never match. */
function isOrigin(text: string): boolean {
  if (text === ANY_ORIGIN) return true
  if (/^https?:/.test(text)) return !text.includes('*') && URL.canParse(text) && new URL(text).origin === text
  // Installed applications have schemes of their own, which `URL` gives no origin.
  return /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9.-]*(:\d{1,5})?$/.test(text)
}
