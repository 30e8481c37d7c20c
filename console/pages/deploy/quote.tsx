/** The current cost of one replica, and of all replicas together. */
import { useEffect, useState } from 'react'
import type { CallInput } from '../../../src/client/client.ts'
import { api } from '../../../src/contract/api.ts'
import { quotedCosts } from '../../../src/view/deployment.ts'
import { shortGpuLabel } from '../../../src/view/gpu.ts'
import { useCall } from '../../api/query.ts'
import { flatten } from '../../form/entry.ts'
import { collect, type FieldValues } from '../../form/field.ts'
import { optionalNumber } from '../../form/read.ts'
import { Facts } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { engineFields, gpuFields } from '../deployment/fields.ts'

/** The pause after the last key press before a quote is requested. */
const PAUSE_MS = 400

type Body = NonNullable<CallInput<'quoteManagedDeployment'>['body']>

export function Quote({ values }: { values: FieldValues<'createManagedDeployment'> }) {
  const engine = flatten(engineFields<'createManagedDeployment'>(values['recipe.name']))
  const fields = ['kind', 'forEveryone', ...engine, ...gpuFields] as const
  const typed = JSON.stringify(collect('createManagedDeployment', fields, values))
  const settled = JSON.parse(useSettled(typed)) as Body
  const isComplete = api.quoteManagedDeployment.body?.safeParse(settled).success === true
  const quote = useCall('quoteManagedDeployment', { body: settled }, { enabled: isComplete, keepsLast: true })
  if (!isComplete) return <p className="text-sm text-muted">Choose GPUs to see the cost.</p>
  if (quote.error !== null) return <ErrorNotice error={quote.error} isRead />
  if (quote.data === undefined) return <Skeleton rows={2} />
  const { gpuModel, region } = quote.data
  const costs = quotedCosts(quote.data, {
    min: replicasOf(values['replicas.min'], 0),
    max: replicasOf(values['replicas.max'], 1),
  })
  return (
    <div aria-live="polite" className="flex flex-col gap-3">
      <Facts
        facts={[
          ...costs.map(
            ([label, value], at) => [label, at === 0 ? <strong key={label}>{value}</strong> : value] as const,
          ),
          ['Machine', `${shortGpuLabel(gpuModel)} in ${region}`],
        ]}
      />
      <p className="text-sm text-muted">
        The cheapest machine that fits now. Later replicas may cost more; a price cap or a budget limits them.
      </p>
    </div>
  )
}

function replicasOf(text: string, otherwise: number): number {
  const replicas = optionalNumber(text) ?? otherwise
  return Number.isInteger(replicas) && replicas > 0 ? replicas : 0
}

/** Returns the value once typing has paused. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [value])
  return settled
}
