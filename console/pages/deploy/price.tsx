/** The price of a replica and of all of them, always beside the steps. */
import { useEffect, useState } from 'react'
import { formatUsd } from '../../../src/base/money.ts'
import type { CallInput } from '../../../src/client/client.ts'
import { api } from '../../../src/contract/api.ts'
import { quotedCosts } from '../../../src/view/deployment.ts'
import { gpusLabel, shortGpuLabel } from '../../../src/view/gpu.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { Facts } from '../../ui/card.tsx'
import { Notice } from '../../ui/notice.tsx'
import type { ChosenGpus } from './order.ts'
import { replicasOf } from './scale.tsx'
import type { Values } from './source.ts'

/** The pause after the last key press before a quote is requested. */
const PAUSE_MS = 400

type QuoteBody = NonNullable<CallInput<'quoteManagedDeployment'>['body']>

interface PriceProps {
  /** The chosen GPUs with their listed price. undefined: none can be chosen. */
  readonly gpus: ChosenGpus | undefined
  readonly values: Values
  /** The body of the quote. undefined: too little is costs for one. */
  readonly body: object | undefined
}

/** The listed price shows at once; the quote replaces it, since it knows all of the order. */
export function Price({ gpus, values, body }: PriceProps) {
  const quote = useQuote(body)
  const replicas = { min: replicasOf(values['replicas.min'], 0), max: replicasOf(values['replicas.max'], 1) }
  const perHour = quote.data?.costPerHourUsd ?? (gpus === undefined ? undefined : formatUsd(gpus.perHour))
  if (perHour === undefined) {
    return <p className="text-sm text-muted">Choose a model and GPUs to see the price.</p>
  }
  const costs = { costPerHourUsd: perHour, freeStartMinutesLeft: quote.data?.freeStartMinutesLeft ?? 0 }
  const [, idle, most, starts] = quotedCosts(costs, replicas)
  return (
    <div aria-live="polite" className="flex flex-col gap-3">
      <p>
        <strong className="text-2xl font-semibold tabular-nums">{hourlyPrice(perHour)}</strong>{' '}
        <span className="text-sm text-muted">per replica</span>
      </p>
      <Facts
        facts={[
          [
            'GPUs',
            gpusLabel(
              quote.data?.gpuCount ?? gpus?.count ?? 1,
              shortGpuLabel(quote.data?.gpuModel ?? gpus?.option.gpuModel),
            ),
          ],
          ['Region', quote.data?.region ?? gpus?.option.region],
          ...(idle === undefined ? [] : [idle]),
          ...(most === undefined ? [] : [most]),
          ...(starts === undefined || quote.data === undefined ? [] : [starts]),
        ]}
      />
      {quote.error !== null && <Notice tone="warn">{quote.error.message}</Notice>}
    </div>
  )
}

function useQuote(body: object | undefined) {
  const settled = useSettled(JSON.stringify(body ?? {}))
  const read = JSON.parse(settled) as QuoteBody
  const isComplete = body !== undefined && api.quoteManagedDeployment.body?.safeParse(read).success === true
  const quote = useCall('quoteManagedDeployment', { body: read }, { enabled: isComplete })
  // The quote of what was chosen before is not that of the choice.
  const isCurrent = isComplete && settled === JSON.stringify(body)
  return { data: isCurrent ? quote.data : undefined, error: isCurrent ? quote.error : null }
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
