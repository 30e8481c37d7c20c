/** Accepts connections, the last step of a start, and says where. The first step of a stop is its opposite. */
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { ADDRESS_FILE, formatAddress } from '../../base/net/server-address.ts'
import { writePrivateFile } from '../data/data-folder.ts'
import type { EventStreams } from '../events/event-stream.ts'
import type { HttpServer } from '../http/http.ts'
import type { Front } from './front.ts'
import { openParts, type Context, type Part } from './part.ts'

export function openListening(
  { dataDir }: Context,
  http: HttpServer,
  { front, streams }: { front: Front; streams: EventStreams },
): Promise<Part> {
  return openParts(async (parts) => {
    await front.listen()
    // Requests in progress still need hosts and other servers, so they end before their connections do. Event streams have
    // no end of their own.
    await parts.add({ close: () => front.settle() })
    await parts.add({ close: () => streams.close() })
    writePrivateFile(dataDir, ADDRESS_FILE, formatAddress(http.url()))
    await parts.add({ close: () => rm(path.join(dataDir, ADDRESS_FILE), { force: true }) })
    return {}
  })
}
