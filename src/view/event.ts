/** Events: title, tone, and the data worth showing. */
import type { EventRecord } from '../contract/event.ts'
import type { EventType } from '../contract/event-type.ts'
import { replicaReason, scaledText } from './deployment.ts'
import { gpusLabel } from './gpu.ts'
import { hourlyPrice, money } from './money.ts'
import { count } from './number.ts'
import { rentalReasonSentence } from './rental.ts'
import type { Tone } from './tone.ts'

const labels = {
  'rental.created': ['Rental ordered', 'info'],
  'rental.running': ['Rental running', 'good'],
  'rental.unknown': ['Contact lost', 'warn'],
  'rental.recovered': ['Contact restored', 'good'],
  'rental.gpu_fault': ['GPU broken', 'bad'],
  'rental.gpu_recovered': ['GPU works again', 'good'],
  'rental.interrupting': ['Interruption announced', 'warn'],
  'rental.stopping': ['Rental stopping', 'info'],
  'rental.stopped': ['Rental stopped', 'plain'],
  'rental.waiting': ['Waiting for GPUs', 'info'],
  'rental.starting': ['Rental starting', 'info'],
  'rental.started': ['Rental started', 'good'],
  'rental.start_failed': ['Start failed', 'bad'],
  'rental.rebooted': ['Rental rebooted', 'info'],
  'rental.failed': ['Rental failed', 'bad'],
  'rental.terminating': ['Rental terminating', 'info'],
  'rental.terminated': ['Rental terminated', 'plain'],
  'rental.stuck': ['Rental stuck', 'warn'],
  'rental.term_expiring': ['Term expiring', 'warn'],
  'rental.idle': ['Rental idle', 'warn'],
  'rental.term_converted': ['Term ended', 'info'],
  'rental.changed': ['Rental changed', 'plain'],
  'rental.ready': ['Ports answering', 'good'],
  'rental.not_ready': ['Port not answering', 'warn'],
  'rental.port_token_created': ['Port token created', 'plain'],
  'rental.port_token_revoked': ['Port token revoked', 'plain'],
  'group.created': ['Group ordered', 'info'],
  'group.running': ['Group running', 'good'],
  'group.restarting': ['Group restarting', 'warn'],
  'group.ending': ['Group ending', 'info'],
  'group.ended': ['Group ended', 'plain'],
  'volume.created': ['Volume ordered', 'info'],
  'volume.active': ['Volume ready', 'good'],
  'volume.suspended': ['Volume suspended', 'warn'],
  'volume.resumed': ['Volume resumed', 'good'],
  'volume.unknown': ['Volume data not found', 'bad'],
  'volume.recovered': ['Volume data found again', 'good'],
  'volume.attached': ['Volume attached', 'info'],
  'volume.detached': ['Volume detached', 'plain'],
  'volume.growing': ['Volume growing', 'info'],
  'volume.grown': ['Volume grown', 'good'],
  'volume.grow_failed': ['Volume not grown', 'bad'],
  'volume.deleting': ['Deleting volume', 'info'],
  'volume.deleted': ['Volume deleted', 'plain'],
  'volume.failed': ['Volume failed', 'bad'],
  'deployment.created': ['Deployment created', 'info'],
  'deployment.changed': ['Deployment changed', 'plain'],
  'deployment.scaled': ['Deployment scaled', 'info'],
  'deployment.blocked': ['Replica not ordered', 'warn'],
  'deployment.budget_reached': ['Hourly budget reached', 'warn'],
  'deployment.backing_off': ['Replicas fail to start', 'bad'],
  'deployment.replica_starting': ['Replica starting', 'info'],
  'deployment.start_charged': ['Start charged', 'warn'],
  'deployment.replica_ready': ['Replica ready', 'good'],
  'deployment.replica_ended': ['Replica ended', 'plain'],
  'deployment.replica_failed': ['Replica failed', 'bad'],
  'deployment.rollout_started': ['Rollout started', 'info'],
  'deployment.rollout_done': ['Rollout done', 'good'],
  'deployment.failed': ['Deployment failed', 'bad'],
  'deployment.deleted': ['Deployment deleted', 'plain'],
  'job.created': ['Job created', 'info'],
  'job.starting': ['Job starting', 'info'],
  'job.running': ['Job running', 'good'],
  'job.restarted': ['Job restarted', 'warn'],
  'job.retried': ['Job retried', 'warn'],
  'job.succeeded': ['Job succeeded', 'good'],
  'job.failed': ['Job failed', 'bad'],
  'job.cancelled': ['Job cancelled', 'plain'],
  'job.timed_out': ['Job timed out', 'bad'],
  'balance.credited': ['Payment received', 'good'],
  'balance.adjusted': ['Balance corrected', 'info'],
  'balance.runway_low': ['Balance low', 'warn'],
  'payout.details_changed': ['Payout details changed', 'warn'],
  'payout.paid': ['Payout paid', 'good'],
  'payout.failed': ['Payout failed', 'bad'],
  'budget.alert': ['Budget alert', 'warn'],
  'budget.exceeded': ['Budget exceeded', 'bad'],
  'balance.empty': ['Balance empty', 'bad'],
  'balance.auto_top_up_failed': ['Automatic top-up failed', 'warn'],
  'balance.auto_top_up_paused': ['Automatic top-up at its cap', 'warn'],
  'balance.auto_top_up_off': ['Automatic top-up turned off', 'bad'],
  'key.created': ['Key created', 'plain'],
  'key.rotated': ['Key rotated', 'plain'],
  'key.revoked': ['Key revoked', 'plain'],
  'webhook.test': ['Webhook test', 'plain'],
  'reservation.requested': ['Reservation requested', 'info'],
} as const satisfies Record<EventType, readonly [string, Tone]>

/** A newer server may have types that this page does not know. */
export function eventTitle(type: EventType): string {
  return labels[type]?.[0] ?? type
}

export function eventTone(type: EventType): Tone {
  return labels[type]?.[1] ?? 'plain'
}

/** Empty if the title says everything. */
export function eventDetail({ type, data }: Pick<EventRecord, 'type' | 'data'>): string {
  const text = (name: string): string | undefined => (typeof data[name] === 'string' ? data[name] : undefined)
  if (type === 'rental.created') {
    const price = text('costPerHourUsd')
    const gpus = typeof data['gpuCount'] === 'number' ? gpusLabel(data['gpuCount'], 'GPU') : undefined
    return [gpus, text('region'), price === undefined ? undefined : hourlyPrice(price)].filter(Boolean).join(', ')
  }
  if (type === 'budget.alert' || type === 'budget.exceeded') {
    return `${money(text('spentUsd') ?? '0')} of ${money(text('monthlyUsd') ?? '0')} this month`
  }
  if (type === 'rental.term_expiring' && typeof data['days'] === 'number')
    return `Ends within ${count(data['days'], 'day')}`
  if (type === 'reservation.requested' && typeof data['gpuCount'] === 'number') {
    const from = text('from')?.slice(0, 10)
    const until = text('until')?.slice(0, 10)
    const parts = [
      gpusLabel(data['gpuCount'], text('gpuType')?.toUpperCase() ?? 'GPU'),
      from === undefined ? undefined : `from ${from}`,
      until === undefined ? undefined : `until ${until}`,
      text('contact'),
      text('note'),
    ]
    return parts.filter(Boolean).join(', ')
  }
  if (type === 'deployment.scaled') return scaledText(data)
  if (type === 'deployment.replica_ready' && typeof data['startSeconds'] === 'number')
    return `After ${count(data['startSeconds'], 'second')}`
  if (type.startsWith('deployment.replica_') && typeof data['reason'] === 'string') return replicaReason(data['reason'])
  const amount = text('amountUsd')
  if (amount !== undefined) return money(amount)
  if (type === 'balance.runway_low' && typeof data['hours'] === 'number')
    return `Runs out within ${count(data['hours'], 'hour')}`
  const reason = text('reason')
  const detail = text('detail') ?? text('note')
  if (detail !== undefined) return detail
  return reason === undefined ? '' : rentalReasonSentence(reason)
}

/** The label or name of the thing it is about. */
export function eventSubject({ subject, data }: Pick<EventRecord, 'subject' | 'data'>): string {
  for (const name of ['label', 'name']) {
    const value = data[name]
    if (typeof value === 'string' && value !== '') return value
  }
  if (subject.kind === 'balance' || subject.kind === 'account') return 'Account'
  return `${subject.kind} ${subject.id}`
}
