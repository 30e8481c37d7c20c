/** Connections to and from hosts: agents, terminals, and the relay to tenants' ports. */
import type http from 'node:http'
import type { Logger } from 'pino'
import type { App } from '../../app/app.ts'
import type { MetricRecorder } from '../../app/rental/metric-recorder.ts'
import type { Metrics } from '../../base/metrics.ts'
import { HEARTBEAT_MS } from '../../domain/host.ts'
import { openAgentSockets } from './agent-sockets.ts'
import type { Authenticator } from '../http/authenticate.ts'
import type { HostLinks } from './host-links.ts'
import { openPortHealth } from '../ports/port-health.ts'
import type { PortProxy } from '../ports/port-proxy.ts'
import type { PortShares } from '../ports/port-share.ts'
import type { RateLimiter } from '../http/rate-limit.ts'
import { openRelay } from './relay.ts'
import { openSessionSockets } from './session-sockets.ts'
import type { Settings } from '../settings.ts'
import { openUpgrades } from '../http/upgrade.ts'

export interface HostSocketsOptions {
  readonly app: App
  readonly links: HostLinks
  readonly ports: PortProxy
  readonly shares: PortShares
  readonly settings: Settings
  readonly log: Logger
  readonly metrics: Metrics
  readonly rates: RateLimiter
  readonly authenticator: Authenticator
  /** Must not have the fast path installed yet. */
  readonly server: http.Server
  readonly recorder: MetricRecorder
  /** See AgentSocketsOptions. */
  readonly serverId: string | null
}

/** Returns a function that closes all of it. Without the host engine nothing is opened. */
export function openHostSockets(options: HostSocketsOptions): () => Promise<void> {
  const { app, settings, log, metrics, rates, authenticator, server, links, ports, shares, recorder, serverId } =
    options
  if (![...app.drivers.values()].some(({ traits }) => traits.ports === 'relayed')) return async () => {}
  const { trustedProxy } = settings
  const relay = openRelay({ app, links, host: settings.relay.host, log, shares })
  const health = openPortHealth({ app, links, log })
  const agents = openAgentSockets({
    app,
    log,
    links,
    heartbeatMs: HEARTBEAT_MS,
    trustedProxy,
    metrics,
    recorder,
    serverId,
  })
  const sessions = openSessionSockets({ app, links, authenticator, rates, log, trustedProxy })
  openUpgrades(server, [ports.take, agents.take, sessions.take])
  return async () => {
    await health.close()
    await sessions.close()
    await relay.close()
    await agents.close()
  }
}
