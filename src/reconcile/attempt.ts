/**
 * Provider calls that the loops make on behalf of a row. A failure, in the provider or in our own code, is counted by
 * loop and provider, logged when its cause differs from the last one, and stored on the row for operators. It stays
 * there until the call succeeds, so a cause that returns with every retry is one line in the log.
 */
import { inspect } from 'node:util'
import type { App } from '../app/app.ts'
import { writeLastError, type DriverRow } from '../store/platform/lease.ts'
import type { Rental } from '../store/rental/rental.ts'
import type { Attachment, Volume } from '../store/volume/volume.ts'

/** The limit of the column; error messages of providers can be long. */
const MAX_CAUSE_CHARS = 500
const MAX_CAUSES = 5

export type DriverTask = DriverRow & {
  readonly loop: string
  readonly driver: string
  readonly lastError: string | null
}

export function rentalTask(loop: string, rental: Rental): DriverTask {
  const { id, driver, last_error: lastError } = rental
  return { loop, driver, table: 'rental', key: { id }, lastError }
}

export function volumeTask(loop: string, volume: Volume): DriverTask {
  const { id, driver, last_error: lastError } = volume
  return { loop, driver, table: 'volume', key: { id }, lastError }
}

export function attachmentTask(loop: string, driver: string, attachment: Attachment): DriverTask {
  const { volume_id, rental_id, last_error: lastError } = attachment
  return { loop, driver, table: 'attachment', key: { volume_id, rental_id }, lastError }
}

/** `waiting`: the work neither failed nor succeeded, so the last failure stays on the row. */
export type Progress = 'done' | 'waiting'

/** `failed`: the work threw, and the failure is recorded. */
export async function attempt(
  app: App,
  task: DriverTask,
  stop: AbortSignal,
  work: () => Promise<Progress>,
): Promise<Progress | 'failed'> {
  try {
    const progress = await work()
    if (progress === 'done' && task.lastError !== null)
      await writeLastError(app.database.db, task, null, app.clock.now())
    return progress
  } catch (error) {
    // The server is shutting down and aborts its own calls.
    if (stop.aborted) return 'failed'
    await noteFailure(app, task, error)
    return 'failed'
  }
}

export async function noteFailure(app: App, task: DriverTask, error: unknown): Promise<void> {
  const cause = causeOf(error)
  const { loop, driver, table, key } = task
  const subject = `${table} ${Object.values(key).join('/')}`
  app.driverFault?.({ loop, driver, subject, error, isNew: cause !== task.lastError })
  await writeLastError(app.database.db, task, cause, app.clock.now())
}

/** The error message and its causes, in one line. */
function causeOf(error: unknown): string {
  const texts: string[] = []
  let one: unknown = error
  for (let depth = 0; depth < MAX_CAUSES && one !== undefined; depth += 1) {
    const text = one instanceof Error ? one.message || one.name : inspect(one)
    if (!texts.some((before) => before.includes(text))) texts.push(text)
    one = one instanceof Error ? one.cause : undefined
  }
  // PostgreSQL rejects NUL, and a log line has no line breaks.
  return texts
    .join(': ')
    .replaceAll(/\p{Cc}+/gu, ' ')
    .slice(0, MAX_CAUSE_CHARS)
}
