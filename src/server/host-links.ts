/** The hosts whose connections this server holds. A host has one at most: a newer one takes the place of the older. */
import type { MuxStream } from '../base/mux.ts'
import type { StreamRequest } from '../contract/agent.ts'

export interface HostLink {
  open(request: StreamRequest): MuxStream
  /** It is no longer the host's connection. */
  replace(): void
}

export interface HostLinks {
  add(hostId: string, link: HostLink): void
  /** Does nothing when another link has taken its place. */
  remove(hostId: string, link: HostLink): void
  get(hostId: string): HostLink | undefined
  /** undefined: the host is not connected here. */
  open(hostId: string, request: StreamRequest): MuxStream | undefined
  ids(): string[]
  /** Something may be wanted otherwise of a host that is connected here. */
  tell(hostId: string): void
  /** Calls back when a host comes, goes, or is told something. Returns how to stop. */
  watch(listener: () => void): () => void
}

export function makeHostLinks(): HostLinks {
  const links = new Map<string, HostLink>()
  const listeners = new Set<() => void>()
  const changed = (): void => {
    for (const listener of listeners) listener()
  }
  return {
    add: (hostId, link) => {
      const before = links.get(hostId)
      links.set(hostId, link)
      if (before !== link) before?.replace()
      changed()
    },
    remove: (hostId, link) => {
      if (links.get(hostId) !== link) return
      links.delete(hostId)
      changed()
    },
    get: (hostId) => links.get(hostId),
    open: (hostId, request) => links.get(hostId)?.open(request),
    ids: () => [...links.keys()],
    tell: (hostId) => {
      if (links.has(hostId)) changed()
    },
    watch: (listener) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
