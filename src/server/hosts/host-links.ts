/**
 * The hosts connected to this server, and those reached through other servers (peers.ts). A host has at most one
 * connection here: a newer one replaces the older.
 */
import type { MuxStream } from '../../base/net/mux.ts'
import type { StreamRequest } from '../../contract/agent.ts'

export interface HostLink {
  open(request: StreamRequest): MuxStream
  /** Another connection of the host has replaced this one. */
  replace(): void
}

/** Hosts connected to other servers. */
export interface RemoteLinks {
  link(hostId: string): HostLink | undefined
  hostIds(): string[]
}

/** Machines that are reached without an agent's connection. */
export interface LinkSource {
  ids(): readonly string[]
  get(hostId: string): HostLink | undefined
}

export interface HostLinks {
  add(hostId: string, link: HostLink): void
  /** Does nothing if another link has replaced this one. */
  remove(hostId: string, link: HostLink): void
  /** Returns the link on this server, else one through another server. */
  get(hostId: string): HostLink | undefined
  /** undefined: the host is not connected. */
  open(hostId: string, request: StreamRequest): MuxStream | undefined
  /** undefined: the host is not connected to this server. */
  openHere(hostId: string, request: StreamRequest): MuxStream | undefined
  /** Hosts that are connected to this server or reached without a connection. */
  ids(): string[]
  /** Hosts that are connected to any server. */
  reachableIds(): string[]
  /** Sets the links for hosts that are not connected here. */
  addRemote(remote: RemoteLinks): void
  /** Called when hosts have connected to other servers, or left them. */
  remoteChanged(): void
  /** Called when the desired state of a host connected here may have changed. */
  notify(hostId: string): void
  /**
   * Calls the listener when a host connects, disconnects or gets a new desired state. Returns a function that stops it.
   */
  watch(listener: () => void): () => void
}

/** `sources`: machines that every server reaches without an agent. */
export function makeHostLinks(sources: readonly LinkSource[] = []): HostLinks {
  const links = new Map<string, HostLink>()
  const listeners = new Set<() => void>()
  let remote: RemoteLinks | undefined
  const changed = (): void => {
    for (const listener of listeners) listener()
  }
  // An agent whose host has the name of such a machine must not get its streams.
  const get = (hostId: string): HostLink | undefined =>
    sources.map((source) => source.get(hostId)).find((link) => link !== undefined) ??
    links.get(hostId) ??
    remote?.link(hostId)
  const sourceIds = (): string[] => sources.flatMap((source) => [...source.ids()])
  return {
    add: (hostId, link) => {
      const previous = links.get(hostId)
      links.set(hostId, link)
      if (previous !== link) previous?.replace()
      changed()
    },
    remove: (hostId, link) => {
      if (links.get(hostId) !== link) return
      links.delete(hostId)
      changed()
    },
    get,
    open: (hostId, request) => get(hostId)?.open(request),
    openHere: (hostId, request) => links.get(hostId)?.open(request),
    ids: () => [...links.keys(), ...sourceIds()],
    reachableIds: () => [...new Set([...links.keys(), ...sourceIds(), ...(remote?.hostIds() ?? [])])],
    addRemote: (source) => (remote = source),
    remoteChanged: changed,
    notify: (hostId) => {
      if (links.has(hostId)) changed()
    },
    watch: (listener) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
