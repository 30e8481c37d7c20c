/** The last output of a machine that is gone: sealed, for its account only, and deleted after thirty days. */
import { z } from 'zod'
import type { LastLog } from '../../contract/agent.ts'
import { findMeasuredRental, readRentalLog, saveRentalLog } from '../../store/rental/rental-log.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { App } from '../app.ts'

const sealedLog = z.object({ accountId: z.string(), text: z.string() })

/** Drops the output of a workload that is not on this host. */
export async function saveLastLog(
  app: Pick<App, 'database' | 'clock' | 'vault'>,
  hostId: string,
  { id, tail }: LastLog,
): Promise<void> {
  const rental = await findMeasuredRental(app.database.db, hostId, id)
  if (rental !== undefined) await keepRentalLog(app, rental, Buffer.from(tail, 'base64').toString('utf8'))
}

/** Stores a text whose lines start with their times. */
export async function keepRentalLog(
  app: Pick<App, 'database' | 'clock' | 'vault'>,
  rental: { readonly id: number; readonly accountId: string },
  text: string,
): Promise<void> {
  const sealed = app.vault.seal(JSON.stringify({ accountId: rental.accountId, text }))
  await saveRentalLog(app.database.db, rental.id, sealed, app.clock.now())
}

/** Returns a text whose lines start with their times. undefined: nothing was kept. */
export async function readLastLog(
  app: Pick<App, 'database' | 'vault'>,
  rental: Pick<Rental, 'id' | 'account_id'>,
): Promise<string | undefined> {
  const sealed = await readRentalLog(app.database.db, rental.id)
  if (sealed === undefined) return undefined
  const { accountId, text } = sealedLog.parse(JSON.parse(app.vault.open(sealed)))
  // A database that was restored from a backup uses ids again.
  return accountId === rental.account_id ? text : undefined
}
