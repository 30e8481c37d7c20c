/** The hosts connected to this server. Each has at most one connection: a newer one replaces the older. */
import type { MuxStream } from '../base/mux.ts'
import type { StreamRequest } from '../contract/agent.ts'

export interface HostLink {
  open(request: StreamRequest): MuxStream
  /** Another connection of the host has replaced this one. */
  replace(): void
}

export interface HostLinks {
  add(hostId: string, link: HostLink): void
  /** Does nothing if another link has replaced this one. */
  remove(hostId: string, link: HostLink): void
  get(hostId: string): HostLink | undefined
  /** undefined: the host is not connected here. */
  open(hostId: string, request: StreamRequest): MuxStream | undefined
  ids(): string[]
  /** The desired state of a host connected here may have changed. */
  notify(hostId: string): void
  /** Calls back when a host connects, disconnects or gets a new desired state. Returns a function that stops it. */
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
    notify: (hostId) => {
      if (links.has(hostId)) changed()
    },
    watch: (listener) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
