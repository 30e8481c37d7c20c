/**
 * Mounts and unmounts volumes on rentals, once both sides are there. A host may take long, or be dead: a call is given
 * up after a few seconds and comes again later, where it finds what was done meanwhile. So one host holds up the
 * others for that long at most, however many volumes wait for it.
 */
import { addMs, toDate } from '../base/instant.ts'
import { sql } from 'kysely'
import type { App } from '../app/app.ts'
import { recordVolumeEvent } from '../app/volume.ts'
import { transact } from '../store/database.ts'
import { claimDue } from '../store/lease.ts'
import { findRental } from '../store/rental.ts'
import { readVolumes, type Attachment } from '../store/volume.ts'
import { attachmentConcern, attempt } from './attempt.ts'
import { backOffMs, callSignal, eachOf, type Reconciler } from './loop.ts'

const BATCH = 64
/** All of a batch at once: most of the time they wait for hosts. */
const WIDTH = BATCH
const CALL_MS = 5_000
const LEASE_SLACK_MS = 5_000

export function tendAttachments(app: App): Reconciler {
  return {
    name: 'attachments',
    everyMs: 1_000,
    run: async (signal) => {
      // A rental that is ending takes its mounts with it; `observe` clears those rows.
      const claim = await claimDue<Attachment>(
        app.database.db,
        'attachment',
        sql`(t.state = 'attaching'
             and exists (select 1 from rental r where r.id = t.rental_id and r.status = 'Running' and r.external_id is not null)
             and exists (select 1 from volume v where v.id = t.volume_id and v.state = 'active'))
            or (t.state = 'detaching'
             and exists (select 1 from rental r where r.id = t.rental_id and r.status in ('Pending', 'Running', 'Unknown')))`,
        { now: app.clock.now(), leaseMs: CALL_MS + LEASE_SLACK_MS, limit: BATCH },
      )
      await eachOf(claim.rows, WIDTH, (attachment) => tendOne(app, attachment, claim.token, signal))
      return claim.rows.length === BATCH
    },
  }
}

async function tendOne(app: App, attachment: Attachment, token: string, signal: AbortSignal): Promise<void> {
  const rental = await findRental(app.database.db, attachment.rental_id)
  const volume = (await readVolumes(app.database.db, [attachment.volume_id])).get(attachment.volume_id)
  const driver = volume === undefined ? undefined : app.drivers.get(volume.driver)
  // What fails is tried again below; attach and detach are idempotent.
  const concern = attachmentConcern('attachments', volume?.driver ?? 'none', attachment)
  const outcome = await attempt(app, concern, signal, async () => {
    if (rental?.external_id && volume?.external_id && driver?.volumes) {
      const call = callSignal(signal, Math.min(CALL_MS, driver.callTimeoutMs))
      if (attachment.state === 'attaching') await driver.volumes.attach(volume.external_id, rental.external_id, call)
      else await driver.volumes.detach(volume.external_id, rental.external_id, call)
      return 'done'
    }
    // One of the two was never made: there is nothing to unmount.
    return attachment.state === 'detaching' ? 'done' : 'waiting'
  })
  const done = outcome === 'done'
  await transact(app.database, async (tx) => {
    const mine = tx.db
      .selectFrom('attachment')
      .select('state')
      .where('volume_id', '=', attachment.volume_id)
      .where('rental_id', '=', attachment.rental_id)
      .where('lease_token', '=', token)
      .forUpdate()
    const current = await mine.executeTakeFirst()
    if (current === undefined) return
    const changed = current.state !== attachment.state
    const dueAt = done && changed ? tx.clock.now() : addMs(tx.clock.now(), backOffMs(attachment.attempts))
    const row = { volumeId: attachment.volume_id, rentalId: attachment.rental_id }
    if (done && !changed && attachment.state === 'detaching') {
      await tx.db
        .deleteFrom('attachment')
        .where('volume_id', '=', row.volumeId)
        .where('rental_id', '=', row.rentalId)
        .execute()
    } else {
      await tx.db
        .updateTable('attachment')
        .set({
          lease_token: null,
          lease_until: null,
          due_at: toDate(dueAt),
          ...(done && !changed ? { state: 'attached' as const } : {}),
        })
        .where('volume_id', '=', row.volumeId)
        .where('rental_id', '=', row.rentalId)
        .execute()
    }
    if (done && !changed && volume !== undefined) {
      recordVolumeEvent(tx, volume, attachment.state === 'attaching' ? 'volume.attached' : 'volume.detached', {
        rentalId: row.rentalId,
      })
    }
  })
}
