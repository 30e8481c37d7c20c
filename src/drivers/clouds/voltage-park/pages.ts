/**
 * Reads lists in pages by offset. An entry that appears or disappears between two pages shifts the others, so that one
 * would be skipped and look gone. Each page therefore starts with the last entry of the page before it, and a list that
 * shifted is read again.
 */
import { z } from 'zod'
import type { CloudHttp } from '../http.ts'
import { pageOf } from './api.ts'

/** The largest page that the vendor allows. */
const PAGE_SIZE = 15
const MAX_TRIES = 4
const location = z.looseObject({ id: z.string().min(1) })

export async function readAll<S extends z.ZodType<{ readonly id: string }>>(
  http: CloudHttp,
  item: S,
  path: string,
  signal: AbortSignal,
): Promise<Array<z.output<S>>> {
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    const list = await tryReadAll(http, item, path, signal)
    if (list !== undefined) return list
  }
  throw new Error(`GET ${path} changed each time while its pages were read.`)
}

/** undefined: the list shifted. */
async function tryReadAll<S extends z.ZodType<{ readonly id: string }>>(
  http: CloudHttp,
  item: S,
  path: string,
  signal: AbortSignal,
): Promise<Array<z.output<S>> | undefined> {
  const items: Array<z.output<S>> = []
  let hasShifted = false
  await http.readPages(pageOf(item), { path, query: { limit: PAGE_SIZE, offset: 0 }, signal }, (page) => {
    const [first, ...others] = page.results
    const last = items.at(-1)
    if (last === undefined) items.push(...page.results)
    else if (first?.id === last.id) items.push(...others)
    else hasShifted = true
    if (hasShifted || !page.has_next) return undefined
    return { limit: PAGE_SIZE, offset: items.length - 1 }
  })
  return hasShifted || new Set(items.map(({ id }) => id)).size < items.length ? undefined : items
}

/** Reads locations and leaves out those that cannot be parsed. */
export async function readLocations<S extends z.ZodType<{ readonly id: string }>>(
  http: CloudHttp,
  item: S,
  path: string,
  signal: AbortSignal,
): Promise<Array<z.output<S>>> {
  return http.readable(item, await readAll(http, location, path, signal), path)
}
