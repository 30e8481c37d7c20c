/**
 * Lists in pages by offset. An entry that appears or disappears while we turn a page moves the others, so that one would be
 * missed and look gone. Each page therefore starts with the last entry of the page before it, and a list that moved is
 * read again.
 */
import { z } from 'zod'
import type { CloudHttp } from '../http.ts'
import { pageOf } from './api.ts'

/** The largest that the vendor allows. */
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

/** undefined: it moved. */
async function tryReadAll<S extends z.ZodType<{ readonly id: string }>>(
  http: CloudHttp,
  item: S,
  path: string,
  signal: AbortSignal,
): Promise<Array<z.output<S>> | undefined> {
  const all: Array<z.output<S>> = []
  let moved = false
  await http.readPages(pageOf(item), { path, query: { limit: PAGE_SIZE, offset: 0 }, signal }, (page) => {
    const [first, ...rest] = page.results
    const last = all.at(-1)
    if (last === undefined) all.push(...page.results)
    else if (first?.id === last.id) all.push(...rest)
    else moved = true
    if (moved || !page.has_next) return undefined
    return { limit: PAGE_SIZE, offset: all.length - 1 }
  })
  return moved || new Set(all.map(({ id }) => id)).size < all.length ? undefined : all
}

/** Locations: one that cannot be read is left out. */
export async function readLocations<S extends z.ZodType<{ readonly id: string }>>(
  http: CloudHttp,
  item: S,
  path: string,
  signal: AbortSignal,
): Promise<Array<z.output<S>>> {
  return http.readable(item, await readAll(http, location, path, signal), path)
}
