/**
 * Reads an order of any kind: the first of three steps, before `checkOrder` and `placeOrder`. A draft says what the
 * customer orders, with what it refers to looked up; it does not yet name a machine.
 */
import type { Instant } from '../../base/instant.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { Guards, OrderFields } from '../../domain/order.ts'
import type { RentalKind } from '../../domain/rental.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import type { ExpandedOrder } from '../account/template.ts'
import { readGuards } from './guard.ts'
import { readOwnOptions, refuseReferences, type ReadOptions } from './order-options.ts'
import { lockOrderVolumes, type OrderVolumes } from './order-volume.ts'

export interface OrderDraft {
  readonly kind: RentalKind
  readonly fields: OrderFields
  readonly options: ReadOptions
  readonly guards: Guards
  readonly volumes: OrderVolumes
  /** The GPU memory that its template needs; 0 without a template. */
  readonly minVramGb: number
  /** A replica, or an attempt of a job: nobody logs in to it, and nobody stops it. */
  readonly isUnattended: boolean
}

/** Reads an order whose template is expanded. Locks its volumes. */
export async function readOrder(
  app: App,
  tx: Tx,
  payer: Pick<Actor, 'accountId'>,
  kind: RentalKind,
  expanded: ExpandedOrder<OrderFields>,
): Promise<Result<OrderDraft>> {
  const draft = readPlainOrder(kind, expanded, tx.clock.now())
  if (!draft.ok) return draft
  const { fields, options } = draft.value
  const unknown = await refuseReferences(tx, payer, options, fields)
  if (unknown !== undefined) return unknown
  const volumes = await lockOrderVolumes(app, tx, payer, kind, options.workload.volumes)
  return volumes.ok ? ok({ ...draft.value, volumes: volumes.value }) : volumes
}

/** Reads an order that refers to nothing but its machine, or one whose references are yet to be looked up. */
export function readPlainOrder(
  kind: RentalKind,
  { order: fields, templateId, minVramGb }: ExpandedOrder<OrderFields>,
  now: Instant,
): Result<OrderDraft> {
  const options = readOwnOptions(kind, fields, templateId, now)
  if (!options.ok) return options
  const volumes = { mounts: [], place: undefined }
  return ok({
    kind,
    fields,
    options: options.value,
    guards: readGuards(fields),
    volumes,
    minVramGb,
    isUnattended: false,
  })
}
