/**
 * Streams the log of a customer's machine. The stream owns its socket from the first byte; if the host disconnects, the
 * connection is cut, so that a partial log does not look complete. For a machine that is gone, the stored end of its
 * output is sent.
 */
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Actor, App } from '../../app/app.ts'
import { findAnyRental } from '../../app/rental/own-rental.ts'
import { readLastLog } from '../../app/rental/rental-log.ts'
import { filterText } from '../../base/log-lines.ts'
import type { LogFilter } from '../../contract/agent.ts'
import type { Api } from '../../contract/api.ts'
import type { QueryOf } from '../../contract/endpoint.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { unbuffered } from '../../base/net/sse.ts'
import type { Rental } from '../../store/rental/rental.ts'

export interface LogRequest extends LogFilter {
  readonly follow: boolean
  readonly tail: number
}

export type OpenLogs = (rental: Rental, request: LogRequest) => Result<Readable>

export interface LogStreams {
  /** Writes to the response, or returns a failure before the first byte. */
  open(
    actor: Actor,
    request: { id: string; query: QueryOf<Api['getRentalLogs']>; stillValid: () => Promise<boolean> },
    response: ServerResponse,
  ): Promise<Result<void>>
}

const MAX_STREAMS_PER_ACCOUNT = 50
/** How often the key is checked again during a stream. */
const KEY_CHECK_MS = 15_000

export function makeLogStreams(app: App, openLogs: OpenLogs | undefined): LogStreams {
  const open = new Map<string, number>()
  return {
    open: async (actor, { id, query, stillValid }, response) => {
      const logRequest = readRequest(query)
      if (!logRequest.ok) return logRequest
      const rental = await findAnyRental(app.database.db, actor, id)
      if (!rental.ok) return rental
      const ownCount = open.get(actor.accountId) ?? 0
      if (ownCount >= MAX_STREAMS_PER_ACCOUNT) {
        return fail('too_many_streams', { limit: MAX_STREAMS_PER_ACCOUNT, streams: 'log', retryAfterMs: 10_000 })
      }
      const logs = await logsOf(app, rental.value, openLogs, logRequest.value)
      if (!logs.ok) return logs
      response.writeHead(200, {
        'Content-Type': 'text/plain; charset=utf-8',
        [unbuffered.name]: unbuffered.value,
        ...(query.download === true
          ? { 'Content-Disposition': `attachment; filename="${fileNameOf(rental.value)}"` }
          : {}),
      })
      response.flushHeaders()
      open.set(actor.accountId, ownCount + 1)
      void forward(logs.value, response, stillValid).finally(() => {
        const count = (open.get(actor.accountId) ?? 1) - 1
        if (count === 0) open.delete(actor.accountId)
        else open.set(actor.accountId, count)
      })
      return ok(undefined)
    },
  }
}

function readRequest(query: QueryOf<Api['getRentalLogs']>): Result<LogRequest> {
  const { since, until } = query
  if (since !== undefined && until !== undefined && since >= until) return failField(['since'], 'empty_time_range')
  return ok({
    follow: query.follow ?? false,
    tail: query.tail,
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    ...(query.search === undefined ? {} : { search: query.search }),
    ...(query.timestamps === undefined ? {} : { timestamps: query.timestamps }),
  })
}

/** Names consist of words and digits, so nothing else reaches a header. */
function fileNameOf({ name }: Rental): string {
  return `${name.replaceAll(/[^\w.-]/g, '_')}.log`
}

export async function logsOf(
  app: App,
  rental: Rental,
  openLogs: OpenLogs | undefined,
  logRequest: LogRequest,
): Promise<Result<Readable>> {
  // An empty log that ends at once would look like a terminated machine.
  if (app.drivers.get(rental.driver)?.traits.simulated === true) {
    return fail('simulated_machine', { lacks: 'logs' })
  }
  // A machine that does not run may be removed at any moment; its last log is stored.
  const lastLog = rental.status === 'Running' ? undefined : await readLastLog(app, rental)
  if (lastLog === undefined) return openLogs?.(rental, logRequest) ?? fail('no_hosts')
  return ok(Readable.from([filterText(lastLog, logRequest.tail, logRequest)], { objectMode: false }))
}

async function forward(logs: Readable, response: ServerResponse, stillValid: () => Promise<boolean>): Promise<void> {
  const check = setInterval(() => {
    stillValid().then(
      (valid) => valid || logs.destroy(new Error('the key is no longer valid')),
      // A failed lookup says nothing about the key.
      () => {},
    )
  }, KEY_CHECK_MS)
  try {
    await pipeline(logs, response)
  } catch {
    // The host or the reader has gone; pipeline has closed the other end.
  } finally {
    clearInterval(check)
  }
}
