/**
 * Opens what is in front of the routes: the fast path for chats, the workers that share its connections, and the end of
 * all connections at a stop.
 */
import type { BodyBudget } from '../../domain/body-budget.ts'
import { makeDrain, openFastPath, type Accept, type Drain } from '../http/connections.ts'
import type { HttpServer } from '../http/http.ts'
import { readPortHost } from '../ports/port-domain.ts'
import type { Workers } from '../workers/workers.ts'
import type { Callers } from './callers.ts'
import type { GatewayPart } from './gateway.ts'
import type { MeterPart } from './meter.ts'
import type { Context, Part } from './part.ts'

export interface Front extends Part, Pick<Drain, 'settle'> {
  /** Gives a connection to node:http, past the fast path. */
  readonly accept: Accept
  listen(): Promise<void>
}

export interface FrontNeeds {
  readonly callers: Callers
  readonly money: MeterPart
  readonly gateway: GatewayPart
  readonly bodies: BodyBudget
  readonly workers: Workers
}

export async function openFront(
  { settings, clock, draining }: Context,
  { routes }: HttpServer,
  needs: FrontNeeds,
): Promise<Front> {
  const { callers, money, bodies, workers } = needs
  const { gateway, places } = needs.gateway
  const { authenticator, rates } = callers
  const isDraining = (): boolean => draining.aborted
  const hasWorkers = settings.workers > 1
  const fastPath = openFastPath(routes.server, {
    gateway,
    bodies,
    authenticator,
    clock,
    isOther: (host) => readPortHost(settings.portDomain, host) !== undefined,
    isDraining,
    spread: hasWorkers ? (socket, bytes) => workers.pass(socket, bytes) : undefined,
  })
  const close = (): Promise<unknown> => routes.close()
  const drain = makeDrain(routes.server, { fastPath, isDraining, finishMs: settings.finishMs, close })
  const { meter, treasury } = money
  await workers.start({ meter, treasury, rates, places, authenticator, takeBack: fastPath.takeBack })
  draining.addEventListener('abort', () => workers.startDraining())
  return {
    accept: fastPath.accept,
    listen: async () => {
      drain.watch()
      await routes.listen({ host: settings.host, port: settings.port })
    },
    settle: () => drain.settle(),
    checks: hasWorkers ? { workers: () => workers.state() } : {},
    close: () => Promise.all([drain.finish(), workers.close()]),
  }
}
