/**
 * Health checks: a GET to the `healthPath` of an HTTP port, through the connection of its host. Any status below 400 is
 * healthy; a healthy port becomes unhealthy after three failures in a row. Each server checks the machines of the hosts
 * that are connected to it and writes changed results. A rental is `Running` as soon as its machine is; `ready` says
 * that its applications answer too.
 */
import http from 'node:http'
import type { Logger } from 'pino'
import type { App } from '../../app/app.ts'
import { notePortHealth } from '../../app/rental/port.ts'
import { contained } from '../../base/net/contained.ts'
import { MINUTE_MS } from '../../base/instant.ts'
import { mendHead } from '../../base/net/mended-head.ts'
import { transact } from '../../store/platform/database.ts'
import { listCheckedPorts, savePortHealth, type CheckedPort } from '../../store/rental/port.ts'
import type { HostLinks } from '../hosts/host-links.ts'

const EVERY_MS = 5_000
const ANSWER_MS = 4_000
/** The number of checks at a time and in one round. Ports that were unchecked for longest come first. */
const CONCURRENCY = 32
const MAX_PORTS = 2_000
/** One slow answer is not an outage. */
const MAX_FAILURES = 3
/** An unchanged result is written again after this time, which keeps it among the recently checked. */
const REWRITE_MS = MINUTE_MS

export interface PortHealth {
  /** Checks all ports once. */
  check(): Promise<void>
  close(): Promise<void>
}

export interface PortHealthOptions {
  readonly app: App
  readonly links: HostLinks
  readonly log: Logger
  readonly everyMs?: number
}

export function openPortHealth({ app, links, log, everyMs = EVERY_MS }: PortHealthOptions): PortHealth {
  const control = new AbortController()
  let checking: Promise<void> | undefined
  /** Failures in a row of ports that count as healthy. */
  const failures = new Map<string, number>()
  const checkOne = async (port: CheckedPort): Promise<void> => {
    const key = `${port.rentalId} ${port.port}`
    const failed = failures.get(key) ?? 0
    failures.delete(key)
    const healthy = await answers(links, port, control.signal)
    if (control.signal.aborted || healthy === undefined) return
    if (!healthy && port.healthy === true && failed + 1 < MAX_FAILURES) return void failures.set(key, failed + 1)
    const checkedAt = app.clock.now()
    if (port.healthy !== healthy) await transact(app.database, (tx) => notePortHealth(tx, { ...port, healthy }))
    else if (port.checkedAt === null || checkedAt - port.checkedAt >= REWRITE_MS) {
      await savePortHealth(app.database.db, { ...port, healthy, checkedAt })
    }
  }
  const checkAll = async (): Promise<void> => {
    const ports = await listCheckedPorts(app.database.db, links.ids(), MAX_PORTS)
    const currentKeys = new Set(ports.map(({ rentalId, port }) => `${rentalId} ${port}`))
    for (const key of failures.keys()) if (!currentKeys.has(key)) failures.delete(key)
    const next = ports.values()
    const work = async (): Promise<void> => {
      for (const port of next) await checkOne(port)
    }
    await Promise.all(Array.from({ length: Math.min(CONCURRENCY, ports.length) }, work))
  }
  const check = (): Promise<void> => {
    checking ??= checkAll().finally(() => (checking = undefined))
    return checking
  }
  const timer = setInterval(() => {
    check().catch((error: unknown) => log.warn({ err: error }, 'could not check the health of ports'))
  }, everyMs).unref()
  return {
    check,
    close: async () => {
      clearInterval(timer)
      control.abort()
      await checking?.catch(() => {})
    },
  }
}

/** undefined: the host is no longer connected here. */
function answers(links: HostLinks, port: CheckedPort, signal: AbortSignal): Promise<boolean | undefined> {
  const stream = links.open(port.hostId, {
    kind: 'port',
    workloadId: port.workloadId,
    port: port.port,
    probe: true,
  })
  if (stream === undefined) return Promise.resolve(undefined)
  return new Promise((resolve) => {
    const finish = (healthy: boolean | undefined): void => {
      clearTimeout(deadline)
      signal.removeEventListener('abort', abort)
      resolve(healthy)
      request.destroy()
      stream.destroy()
    }
    const abort = (): void => finish(undefined)
    const deadline = setTimeout(() => finish(false), ANSWER_MS)
    signal.addEventListener('abort', abort, { once: true })
    const request = http.request({
      createConnection: () => mendHead(stream),
      path: port.path,
      headers: { Host: `127.0.0.1:${port.port}`, 'User-Agent': 'berth-health-check', Connection: 'close' },
    })
    request.once(
      'response',
      contained(
        () => finish(false),
        ({ statusCode = 500 }) => finish(statusCode < 400),
      ),
    )
    request.on('error', () => finish(links.get(port.hostId) === undefined ? undefined : false))
    request.end()
  })
}
