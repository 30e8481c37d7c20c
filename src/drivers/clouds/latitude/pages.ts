/**
 * Reads lists of a project, in numbered pages without a count. An entry that disappears between two pages shifts the
 * others, so that one would be skipped and look gone. A list of several pages therefore counts only when two readings
 * agree.
 */
import type { z } from 'zod'
import type { CloudHttp } from '../http.ts'

/** The vendor's default. A shorter page is the last one. */
const PAGE_SIZE = 20
const MAX_TRIES = 5

type ListOf<Item> = z.ZodType<{ data: Item[] }>

export async function readList<Item extends { id: string }>(
  http: CloudHttp,
  schema: ListOf<Item>,
  { path, project }: { readonly path: string; readonly project: string },
  signal: AbortSignal,
): Promise<Item[]> {
  const query = (number: number) => ({ 'filter[project]': project, 'page[size]': PAGE_SIZE, 'page[number]': number })
  const readOnce = async (): Promise<Item[]> => {
    const pages = await http.readPages(schema, { path, query: query(1), signal }, ({ data }, read) =>
      data.length < PAGE_SIZE ? undefined : query(read.length + 1),
    )
    return pages.flatMap(({ data }) => data)
  }
  let previousIds: string | undefined
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    const items = await readOnce()
    const ids = items.map(({ id }) => id).join()
    if (items.length < PAGE_SIZE || ids === previousIds) return items
    previousIds = ids
  }
  throw new Error(`GET ${path} changed each time while its pages were read.`)
}
