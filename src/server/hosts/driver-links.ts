/**
 * Links to the machines of drivers that open streams themselves. They look like the connection of an agent, so that
 * terminals, logs, ports and health checks handle one kind only.
 */
import { makeMux, type Mux } from '../../base/net/mux.ts'
import type { Driver, StreamDriver } from '../../drivers/driver.ts'
import { serveStream } from '../../runtimes/stream.ts'
import type { HostLink, LinkSource } from './host-links.ts'

export function driverLinks(drivers: Iterable<Pick<Driver, 'streams'>>): LinkSource[] {
  return [...drivers].flatMap(({ streams }) => (streams === undefined ? [] : [linksOf(streams)]))
}

function linksOf(streams: StreamDriver): LinkSource {
  const link: HostLink = { open: linkedMux(streams), replace: () => {} }
  return {
    ids: () => streams.machines(),
    get: (hostId) => (streams.machines().includes(hostId) ? link : undefined),
  }
}

/** Holds both ends of a connection in one process. Each stream has its own, so that none blocks another. */
function linkedMux(streams: StreamDriver): HostLink['open'] {
  return (request) => {
    const ends: { near?: Mux } = {}
    const far = makeMux({
      side: 'client',
      send: (frame) => queueMicrotask(() => ends.near?.receive(frame)),
      accept: (message, stream) => void serveStream(streams, message, stream),
    })
    const near = makeMux({ side: 'server', send: (frame) => queueMicrotask(() => far.receive(frame)) })
    ends.near = near
    return near.open(request)
  }
}
