/**
 * Streams the log of a customer's machine. The stream owns its socket from the first byte; if the host disconnects, the
 * connection is cut, so that a partial log does not look complete.
 */
import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Actor, App } from '../app/app.ts'
import { findAnyRental } from '../app/own-rental.ts'
import { fail, ok, type Result } from '../contract/result.ts'
import { unbuffered } from '../base/sse.ts'
import type { Rental } from '../store/rental.ts'

export type OpenLogs = (rental: Rental, options: { follow: boolean; tail: number }) => Result<Readable>

export interface LogStreams {
  /** Writes to the response, or returns a failure before the first byte. */
  open(
    actor: Actor,
    request: { id: string; follow: boolean; tail: number; stillValid: () => Promise<boolean> },
    response: ServerResponse,
  ): Promise<Result<void>>
}

const MAX_STREAMS_PER_ACCOUNT = 50
/** How often the key is checked again during a stream. */
const KEY_CHECK_MS = 15_000

export function makeLogStreams(app: App, openLogs: OpenLogs | undefined): LogStreams {
  const open = new Map<string, number>()
  return {
    open: async (actor, { id, follow, tail, stillValid }, response) => {
      const rental = await findAnyRental(app.database.db, actor, id)
      if (!rental.ok) return rental
      const own = open.get(actor.accountId) ?? 0
      if (own >= MAX_STREAMS_PER_ACCOUNT) {
        return fail('too_many_streams', { limit: MAX_STREAMS_PER_ACCOUNT, streams: 'log', retryAfterMs: 10_000 })
      }
      const logs = logsOf(app, rental.value, openLogs, { follow, tail })
      if (!logs.ok) return logs
      response.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8', [unbuffered.name]: unbuffered.value })
      response.flushHeaders()
      open.set(actor.accountId, own + 1)
      void forward(logs.value, response, stillValid).finally(() => {
        const left = (open.get(actor.accountId) ?? 1) - 1
        if (left === 0) open.delete(actor.accountId)
        else open.set(actor.accountId, left)
      })
      return ok(undefined)
    },
  }
}

function logsOf(
  app: App,
  rental: Rental,
  openLogs: OpenLogs | undefined,
  options: { follow: boolean; tail: number },
): Result<Readable> {
  // An empty log that ends at once would look like a terminated machine.
  if (app.drivers.get(rental.driver)?.traits.simulated === true) {
    return fail('simulated_machine', { lacks: 'logs' })
  }
  return openLogs?.(rental, options) ?? fail('no_hosts')
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
