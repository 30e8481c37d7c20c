/** Managed deployments in events. */
import type { EventType } from '../../contract/event-type.ts'
import type { Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { isNews } from '../../domain/serving.ts'
import { updateManaged, type ManagedRow } from '../../store/serving/managed-deployment.ts'

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

/** Records news of this kind at most once in a while. The deployment is locked. */
export async function tellDeploymentEvent(
  tx: Tx,
  deployment: Pick<ManagedRow, 'id' | 'account_id' | 'model' | 'told'>,
  type: Extract<EventType, `deployment.${string}`>,
  kind: string,
  data: Readonly<Record<string, unknown>>,
): Promise<void> {
  const now = tx.clock.now()
  if (!isNews(deployment.told, kind, now)) return
  await updateManaged(tx, deployment.id, { told: { ...deployment.told, [kind]: now } })
  recordDeploymentEvent(tx, deployment, type, data)
}
