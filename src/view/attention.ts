/** Lists conditions of the installation that an operator should look at now and that cause no notification. */
import type { Reply } from '../client/client.ts'
import { modelState } from './model.ts'
import { count } from './number.ts'

interface Attention {
  readonly text: string
  readonly to: '/operator/fleet' | '/operator/models'
}

export function attentionOf(
  { gpus, hosts, rentals }: Pick<Reply<'getOperatorSummary'>, 'gpus' | 'hosts' | 'rentals'>,
  { models }: Reply<'listOperatedModels'>,
): Attention[] {
  const counts: ReadonlyArray<readonly [number, string]> = [
    [gpus.faulty, 'faulty GPU'],
    [hosts.quarantined, 'quarantined host'],
    [hosts.offline, 'offline host'],
    [rentals.unreachable, 'unreachable rental'],
    [rentals.stuck, 'stuck rental'],
  ]
  const fleet = counts
    .filter(([total]) => total > 0)
    .map(([total, noun]) => ({ text: count(total, noun), to: '/operator/fleet' as const }))
  const failing = models
    .map((model) => ({ name: model.name, ...modelState(model) }))
    .filter(({ tone }) => tone === 'bad')
    .map(({ name, label }) => ({ text: `Model ${name}: ${label}`, to: '/operator/models' as const }))
  return [...fleet, ...failing]
}
