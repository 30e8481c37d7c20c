/**
 * Lists of a project, in numbered pages without a count. Something that disappears while we turn a page moves the others, and
 * one would be missed and look gone: a list of several pages counts when two readings of it agree.
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
  let before: string | undefined
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    const all = await readOnce()
    const ids = all.map(({ id }) => id).join()
    if (all.length < PAGE_SIZE || ids === before) return all
    before = ids
  }
  throw new Error(`GET ${path} changed each time while its pages were read.`)
}
