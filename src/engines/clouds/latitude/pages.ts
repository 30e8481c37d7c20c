/**
 * The servers of a project, in numbered pages without a count. A server that disappears while we turn a page moves the
 * others, and one would be missed and look gone: a list of several pages counts when two readings of it agree.
 */
import type { CloudHttp } from '../http.ts'
import { servers, type Server } from './api.ts'

/** The vendor's default. A shorter page is the last one. */
const PAGE_SIZE = 20
const MAX_TRIES = 5

export async function readServers(http: CloudHttp, project: string, signal: AbortSignal): Promise<Server[]> {
  let before: string | undefined
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    const all = await readOnce(http, project, signal)
    const ids = all.map(({ id }) => id).join()
    if (all.length < PAGE_SIZE || ids === before) return all
    before = ids
  }
  throw new Error('GET /servers changed each time while its pages were read.')
}

async function readOnce(http: CloudHttp, project: string, signal: AbortSignal): Promise<Server[]> {
  const query = (number: number) => ({ 'filter[project]': project, 'page[size]': PAGE_SIZE, 'page[number]': number })
  const pages = await http.readPages(servers, { path: '/servers', query: query(1), signal }, ({ data }, read) =>
    data.length < PAGE_SIZE ? undefined : query(read.length + 1),
  )
  return pages.flatMap(({ data }) => data)
}
