/** The volumes of all accounts over HTTP, for operators. */
import { MAX_INT32 } from '../../base/limits.ts'
import { ok } from '../../contract/result.ts'
import { readAccountNames } from '../../store/account/account.ts'
import { listAllVolumes, readAttachments } from '../../store/volume/volume.ts'
import { badCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { lastErrorOf } from './operator-rental.ts'

export const operatorVolumeHandlers = {
  listAllVolumes: async (app, { query }) => {
    const beforeId = query.cursor === undefined ? undefined : decodeIdCursor(query.cursor)
    if (query.cursor !== undefined && (beforeId === undefined || beforeId > BigInt(MAX_INT32))) return badCursor()
    const volumes = await listAllVolumes(app.database.db, {
      ...(query.accountId === undefined ? {} : { accountId: query.accountId }),
      ...(query.state === undefined ? {} : { state: query.state }),
      ...(query.failing === undefined ? {} : { failing: query.failing }),
      ...(beforeId === undefined ? {} : { before: Number.parseInt(beforeId.toString(), 10) }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(volumes, query.limit, (volume) => volume.id)
    const attachments = await readAttachments(
      app.database.db,
      page.rows.map(({ id }) => id),
    )
    const nameOf = await readAccountNames(
      app.database.db,
      page.rows.map((volume) => volume.account_id),
    )
    return ok({
      volumes: page.rows.map((volume) => ({
        id: volume.id,
        accountId: volume.account_id,
        accountName: nameOf(volume.account_id),
        label: volume.label,
        driver: volume.driver,
        region: volume.region,
        sizeGb: volume.size_gb,
        state: volume.state,
        stateReason: volume.state_reason,
        stateSince: volume.state_since,
        externalId: volume.external_id,
        attempts: volume.attempts,
        ...lastErrorOf(volume),
        attachments: attachments
          .filter((one) => one.volume_id === volume.id)
          .map((one) => ({ rentalId: one.rental_id, state: one.state, ...lastErrorOf(one) })),
      })),
      nextCursor: page.nextCursor,
    })
  },
} satisfies Partial<Handlers>
