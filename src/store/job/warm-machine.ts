/** Machines that already have the image of an account's jobs. */
import { sql } from 'kysely'
import { addMs, DAY_MS, type Instant } from '../../base/instant.ts'
import { at, type Db, type Tx } from '../platform/database.ts'

/** Hosts remove images that have been unused for long. */
const WARM_MS = 7 * DAY_MS
const MAX_MACHINES = 100

interface Use {
  readonly accountId: string
  readonly image: string
}

export async function markWarm(tx: Tx, { accountId, image }: Use, machineId: string): Promise<void> {
  await sql`
    insert into job_warm_machine (account_id, image, machine_id, at)
    values (${accountId}, ${image}, ${machineId}, ${at(tx.clock.now())})
    on conflict (account_id, image, machine_id) do update set at = excluded.at`.execute(tx.db)
}

/** The most recent ones come first. */
export async function listWarm(db: Db, { accountId, image }: Use): Promise<string[]> {
  const rows = await db
    .selectFrom('job_warm_machine')
    .select('machine_id')
    .where('account_id', '=', accountId)
    .where('image', '=', image)
    .orderBy('at', 'desc')
    .limit(MAX_MACHINES)
    .execute()
  return rows.map(({ machine_id }) => machine_id)
}

export async function forgetCold(db: Db, now: Instant): Promise<void> {
  await sql`delete from job_warm_machine where at < ${at(addMs(now, -WARM_MS))}`.execute(db)
}
