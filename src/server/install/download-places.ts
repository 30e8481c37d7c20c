/** Places for downloads of this server. One client gets a part of them, so that slow readers do not take them all. */
import type { ServerResponse } from 'node:http'
import { makeShareCount } from '../http/share-count.ts'

export interface DownloadPlaces {
  /** Returns a function that frees the place, once. undefined: all are taken, or all that this client may have. */
  take(client: string): (() => void) | undefined
}

export function makeDownloadPlaces({ all, each }: { readonly all: number; readonly each: number }): DownloadPlaces {
  const counted = makeShareCount()
  return {
    take: (client) => {
      const place = counted.take([
        { name: 'all', max: all },
        { name: `client ${client}`, max: each },
      ])
      return typeof place === 'function' ? place : undefined
    },
  }
}

/** Frees the place when the response closes, even if the client disconnected before there was an answer. */
export function freeOnClose(response: ServerResponse, free: () => void): void {
  if (response.destroyed) free()
  else response.once('close', free)
}
