/** Summarizes stuck rentals in one line, for the overviews of operators. */
import type { Client, Reply } from '../../client/client.ts'
import { count } from '../../view/number.ts'
import { red, type Content } from '../kit/screen.ts'

const MAX_COUNTED = 100

export function readStuck(client: Client): Promise<Reply<'listAllRentals'>> {
  return client.call('listAllRentals', { query: { stuck: true, limit: MAX_COUNTED } })
}

/** The text is empty if none is stuck. */
export function describeStuck({ rentals, nextCursor }: Reply<'listAllRentals'>): Content[] {
  if (rentals.length === 0) return []
  const many = `${nextCursor === null ? '' : 'at least '}${count(rentals.length, 'rental')}`
  return ['', red(`${many} stuck. To see what to do: berth operator rentals ls --stuck`)]
}
