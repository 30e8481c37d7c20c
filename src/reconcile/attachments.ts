/**
 * Mounts and unmounts volumes on rentals once both exist. A host may be slow or dead, so a call times out after a few
 * seconds and is retried later; attach and detach are idempotent. One host therefore delays the others by one timeout
 * at most, however many volumes wait for it.
 */
import { addMs, toDate } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { recordVolumeEvent } from '../app/rental/volume.ts'
import { transact } from '../store/platform/database.ts'
import { releaseLease } from '../store/platform/lease.ts'
import { findRental } from '../store/rental/rental.ts'
import {
  deleteAttachments,
  hasDueAttachment,
  leaseAttachments,
  lockLeasedAttachment,
  readVolumes,
  type Attachment,
} from '../store/volume/volume.ts'
import { attachmentTask, attempt } from './attempt.ts'
import { backOffMs, callSignal, eachOf, type Reconciler } from './loop.ts'

const BATCH = 64
/** The whole batch runs at once, since most of the time is spent waiting for hosts. */
const WIDTH = BATCH
const CALL_MS = 5_000
const LEASE_SLACK_MS = 5_000

export function reconcileAttachments(app: App): Reconciler {
  return {
    name: 'attachments',
    due: hasDueAttachment,
    run: async (signal) => {
      const leased = await leaseAttachments(app.database.db, {
        now: app.clock.now(),
        leaseMs: CALL_MS + LEASE_SLACK_MS,
        limit: BATCH,
      })
      await eachOf(leased.rows, WIDTH, (attachment) => reconcileOne(app, attachment, leased.token, signal))
      return leased.rows.length === BATCH
    },
  }
}

async function reconcileOne(app: App, attachment: Attachment, token: string, signal: AbortSignal): Promise<void> {
  const rental = await findRental(app.database.db, attachment.rental_id)
  const volume = (await readVolumes(app.database.db, [attachment.volume_id])).get(attachment.volume_id)
  const driver = volume === undefined ? undefined : app.drivers.get(volume.driver)
  const task = attachmentTask('attachments', volume?.driver ?? 'none', attachment)
  const outcome = await attempt(app, task, signal, async () => {
    if (rental?.external_id && volume?.external_id && driver?.volumes) {
      const call = callSignal(signal, Math.min(CALL_MS, driver.callTimeoutMs))
      const mount = { path: attachment.path, readOnly: attachment.read_only }
      if (attachment.state === 'attaching')
        await driver.volumes.attach(volume.external_id, rental.external_id, call, mount)
      else await driver.volumes.detach(volume.external_id, rental.external_id, call)
      return 'done'
    }
    // The rental or the volume was never created, so there is nothing to unmount.
    return attachment.state === 'detaching' ? 'done' : 'waiting'
  })
  const done = outcome === 'done'
  await transact(app.database, async (tx) => {
    const current = await lockLeasedAttachment(tx, attachment, token)
    if (current === undefined) return
    const { volume_id: volumeId, rental_id: rentalId } = attachment
    // The desired state changed meanwhile: the next pass applies it.
    const changed = current.state !== attachment.state
    if (done && !changed && attachment.state === 'detaching') await deleteAttachments(tx, { volumeId, rentalId })
    else {
      const dueAt = done && changed ? tx.clock.now() : addMs(tx.clock.now(), backOffMs(attachment.attempts))
      await releaseLease(tx.db, 'attachment', attachment, token, {
        due_at: toDate(dueAt),
        ...(done && !changed ? { state: 'attached' } : {}),
      })
    }
    if (done && !changed && volume !== undefined) {
      recordVolumeEvent(tx, volume, attachment.state === 'attaching' ? 'volume.attached' : 'volume.detached', {
        rentalId,
      })
    }
  })
}
