/** Managed deployments in events. */
import type { EventType } from '../contract/event-type.ts'
import type { Tx } from '../store/database.ts'
import { recordEvent } from '../store/event.ts'
import type { ManagedRow } from '../store/managed-deployment.ts'

export function recordDeploymentEvent(
  tx: Tx,
  { id, account_id, model }: Pick<ManagedRow, 'id' | 'account_id' | 'model'>,
  type: Extract<EventType, `deployment.${string}`>,
  data: Readonly<Record<string, unknown>> = {},
): void {
  recordEvent(tx, {
    accountId: account_id,
    type,
    subject: { kind: 'deployment', id },
    data: { deploymentId: id, name: model, ...data },
  })
}
