/** Writes the files of new documents. One that cannot be written is tried again later and delays no other. */
import { SECOND_MS } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { writeDocument } from '../app/document/write-document.ts'
import { nextLook } from '../domain/processor.ts'
import { findDocument, hasDueWriting, leaseWritings, postponeWriting } from '../store/document/document.ts'
import type { Reconciler } from './loop.ts'

/** Each takes a tenth of a second of the processor, so requests come in between. */
const BATCH = 10
const LEASE_MS = 60 * SECOND_MS

export function writeDocuments(app: App): Reconciler {
  return {
    name: 'documents',
    due: hasDueWriting,
    run: async (signal) => {
      const { db } = app.database
      const { rows, token } = await leaseWritings(db, { now: app.clock.now(), limit: BATCH, leaseMs: LEASE_MS })
      for (const { id, attempts } of rows) {
        if (signal.aborted) return false
        try {
          const document = await findDocument(db, id)
          if (document !== undefined) await writeDocument(app, document)
        } catch (error) {
          app.warn?.(error, `the file of document ${id} could not be written; it is tried again`)
          await postponeWriting(db, id, token, nextLook(app.clock.now(), attempts))
        }
      }
      return rows.length === BATCH
    },
  }
}
