/** Places for downloads of this server. One client gets a part of them, so that slow readers do not take them all. */
import type { ServerResponse } from 'node:http'

export interface DownloadPlaces {
  /** Returns a function that frees the place, once. undefined: all are taken, or all that this client may have. */
  take(client: string): (() => void) | undefined
}

export function makeDownloadPlaces({ all, each }: { readonly all: number; readonly each: number }): DownloadPlaces {
  const taken = new Map<string, number>()
  let total = 0
  return {
    take: (client) => {
      const own = taken.get(client) ?? 0
      if (total >= all || own >= each) return undefined
      total += 1
      taken.set(client, own + 1)
      return () => {
        total -= 1
        const left = (taken.get(client) ?? 1) - 1
        if (left === 0) taken.delete(client)
        else taken.set(client, left)
      }
    },
  }
}

/** Also if the client has gone away before there was an answer. */
export function freeOnClose(response: ServerResponse, free: () => void): void {
  if (response.destroyed) free()
  else response.once('close', free)
}
