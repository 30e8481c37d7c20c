/**
 * Opens the connections to and from hosts: their agents, other servers that have one, terminals and logs, and the ways to
 * tenants' ports.
 */
import type { App } from '../../app/app.ts'
import { HEARTBEAT_MS } from '../../domain/host.ts'
import { PORT_WAKE } from '../../store/rental/port.ts'
import type { Bus } from '../events/bus.ts'
import { openAgentSockets } from '../hosts/agent-sockets.ts'
import type { HostLinks } from '../hosts/host-links.ts'
import { openPeers } from '../hosts/peers.ts'
import { openRelay } from '../hosts/relay.ts'
import { openSessionSockets } from '../hosts/session-sockets.ts'
import type { HttpServer } from '../http/http.ts'
import { openUpgrades, type UpgradeHandler } from '../http/upgrade.ts'
import { openPortHealth } from '../ports/port-health.ts'
import { installPortProxy, openPortProxy } from '../ports/port-proxy.ts'
import { makePortShares, type PortShares } from '../ports/port-share.ts'
import type { Callers } from './callers.ts'
import type { Front } from './front.ts'
import { openParts, type Context, type Part, type Parts } from './part.ts'
import type { StoreApp } from './store.ts'

export interface HostConnectionNeeds {
  readonly app: App & Pick<StoreApp, 'recorder'>
  readonly links: HostLinks
  readonly callers: Callers
  readonly front: Pick<Front, 'accept'>
  readonly bus: Pick<Bus, 'on'>
}

export function openHostConnections(
  context: Context,
  { routes: { server } }: HttpServer,
  needs: HostConnectionNeeds,
): Promise<Part> {
  const { settings, log, metrics } = context
  const { app, links, callers, front, bus } = needs
  const { authenticator, rates } = callers
  const { trustedProxy, portDomain: domain } = settings
  return openParts(async (parts) => {
    const shares = makePortShares()
    const hasRelay = [...app.drivers.values()].some(({ traits }) => traits.ports === 'relayed')
    const peers = settings.peers && (await parts.add(openPeers({ app, links, log, listen: settings.peers })))
    const upgrades = hasRelay
      ? await openSockets(parts, context, needs, { shares, serverId: peers?.serverId ?? null })
      : []
    const ports = await parts.add(
      openPortProxy({ app, links, domain, authenticator, rates, shares, trustedProxy, log, metrics }),
    )
    bus.on(PORT_WAKE, (rentalId) => ports.forget(Number(rentalId)))
    installPortProxy(server, ports)
    if (hasRelay) openUpgrades(server, [ports.take, ...upgrades], front.accept)
    return {}
  })
}

async function openSockets(
  parts: Parts,
  { settings, log, metrics }: Context,
  { app, links, callers }: HostConnectionNeeds,
  { shares, serverId }: { shares: PortShares; serverId: string | null },
): Promise<UpgradeHandler[]> {
  const { trustedProxy, relay } = settings
  const { recorder } = app
  const { authenticator, rates } = callers
  const heartbeatMs = HEARTBEAT_MS
  const agents = await parts.add(
    openAgentSockets({ app, log, links, heartbeatMs, trustedProxy, metrics, recorder, serverId }),
  )
  await parts.add(openRelay({ app, links, host: relay.host, log, shares }))
  const sessions = await parts.add(openSessionSockets({ app, links, authenticator, rates, log, trustedProxy }))
  await parts.add(openPortHealth({ app, links, log }))
  return [agents.take, sessions.take]
}
