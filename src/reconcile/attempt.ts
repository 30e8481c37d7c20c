/**
 * How the loops ask an engine for something on behalf of a row. Whatever goes wrong there, in the engine or in our own
 * code, is kept: counted by loop and engine, logged when the cause is another than last time, and written on the row,
 * where operators see it. It stays there until the work has succeeded, so a cause that comes and goes with each retry
 * is one line in the log.
 */
import { inspect } from 'node:util'
import type { App } from '../app/app.ts'
import { writeLastError, type EngineRow } from '../store/lease.ts'
import type { Rental } from '../store/rental.ts'
import type { Attachment, Volume } from '../store/volume.ts'

/** As the schema has it: an engine may say a lot. */
const MAX_CAUSE_CHARS = 500
const MAX_CAUSES = 5

export type Concern = EngineRow & {
  readonly loop: string
  readonly driver: string
  readonly lastError: string | null
}

export function rentalConcern(loop: string, rental: Rental): Concern {
  const { id, driver, last_error: lastError } = rental
  return { loop, driver, table: 'rental', key: { id }, lastError }
}

export function volumeConcern(loop: string, volume: Volume): Concern {
  const { id, driver, last_error: lastError } = volume
  return { loop, driver, table: 'volume', key: { id }, lastError }
}

export function attachmentConcern(loop: string, driver: string, attachment: Attachment): Concern {
  const { volume_id, rental_id, last_error: lastError } = attachment
  return { loop, driver, table: 'attachment', key: { volume_id, rental_id }, lastError }
}

/** `waiting`: nothing went wrong, and nothing was achieved either, so what is known of the last failure stays. */
export type Progress = 'done' | 'waiting'

/** Does the work. `failed`: it threw, and everything about that is written down. */
export async function attempt(
  app: App,
  concern: Concern,
  stop: AbortSignal,
  work: () => Promise<Progress>,
): Promise<Progress | 'failed'> {
  try {
    const progress = await work()
    if (progress === 'done' && concern.lastError !== null)
      await writeLastError(app.database.db, concern, null, app.clock.now())
    return progress
  } catch (error) {
    // The server is being stopped, and cuts off its own calls.
    if (stop.aborted) return 'failed'
    await noteFailure(app, concern, error)
    return 'failed'
  }
}

export async function noteFailure(app: App, concern: Concern, error: unknown): Promise<void> {
  const cause = causeOf(error)
  const { loop, driver, table, key } = concern
  const subject = `${table} ${Object.values(key).join('/')}`
  app.driverFault?.({ loop, driver, subject, error, isNew: cause !== concern.lastError })
  await writeLastError(app.database.db, concern, cause, app.clock.now())
}

/** What went wrong, with the causes behind it, in one line. */
function causeOf(error: unknown): string {
  const said: string[] = []
  let one: unknown = error
  for (let depth = 0; depth < MAX_CAUSES && one !== undefined; depth += 1) {
    const text = one instanceof Error ? one.message || one.name : inspect(one)
    if (!said.some((before) => before.includes(text))) said.push(text)
    one = one instanceof Error ? one.cause : undefined
  }
  // PostgreSQL takes no NUL, and a log line no line breaks.
  return said
    .join(': ')
    .replaceAll(/\p{Cc}+/gu, ' ')
    .slice(0, MAX_CAUSE_CHARS)
}
