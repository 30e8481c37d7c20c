/** The third step: the name, the number of replicas, and what few deployments need. */
import { nanoUsdOf } from '../../../src/base/money.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { useMay } from '../../api/me.ts'
import { Fields } from '../../form/fields.tsx'
import { optionalNumber } from '../../form/read.ts'
import type { DeployOrder } from './order.ts'
import { advancedFields } from './source.ts'

export function ScaleStep({ source, order: { form, gpus } }: { source: string; order: DeployOrder }) {
  const isOperator = useMay('operator')
  const { values } = form
  const [min, max] = [replicasOf(values['replicas.min'], 0), replicasOf(values['replicas.max'], 1)]
  return (
    <div className="flex flex-col gap-4">
      <Fields
        form={form}
        wide
        entries={[
          { show: <p className="text-sm text-muted">{rangeText(min, max, gpus?.perHour)}</p> },
          ['replicas.min', { hint: 'With 0, the first request starts one and waits for it.' }],
          ['replicas.max', { hint: 'More are added with the load, up to this number.' }],
          values.forEveryone ? ['model', { label: 'Name', hint: null }] : ['name', { label: 'Name', hint: null }],
          isOperator && 'forEveryone',
          { group: 'Advanced', isFolded: true, fields: advancedFields(source, values) },
        ]}
      />
    </div>
  )
}

function rangeText(min: number, max: number, perHour: bigint | undefined): string {
  if (perHour === undefined) return 'Replicas are added and removed with the load.'
  const price = (replicas: number): string => hourlyPrice(nanoUsdOf(perHour * BigInt(replicas)))
  if (max === 0) return 'With a maximum of 0 the deployment is paused.'
  if (min >= max) return `${price(min)} at all times.`
  return min === 0 ? `${price(0)} idle, up to ${price(max)}.` : `At least ${price(min)}, up to ${price(max)}.`
}

export function replicasOf(text: string, otherwise: number): number {
  const replicas = optionalNumber(text) ?? otherwise
  return Number.isInteger(replicas) && replicas > 0 ? replicas : 0
}
