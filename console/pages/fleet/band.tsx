/** The GPUs of the installation by model: rented, free and faulty, each as a bar. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { shortGpuLabel } from '../../../src/view/gpu.ts'
import { count, number } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'

type GpuModel = Reply<'getOperatorSummary'>['gpuModels'][number]

const EVERY_MS = 15_000
const SHOWN_MODELS = 8

export function useGpuSummary(): UseQueryResult<Reply<'getOperatorSummary'>, ClientError> {
  return useCall('getOperatorSummary', undefined, { everyMs: EVERY_MS })
}

/** Above the tabs of the fleet. */
export function GpuBand({ gpuModels }: { gpuModels: readonly GpuModel[] }) {
  if (gpuModels.length === 0) return null
  return (
    <div className="rounded-lg border border-line bg-surface p-4">
      <GpuBars gpuModels={gpuModels} />
    </div>
  )
}

export function GpuBars({ gpuModels }: { gpuModels: readonly GpuModel[] }) {
  const others = gpuModels.slice(SHOWN_MODELS)
  return (
    <>
      <ul
        aria-label="GPUs by model"
        className="grid grid-cols-2 gap-x-6 gap-y-3 sm:grid-cols-[repeat(auto-fit,minmax(11rem,1fr))]"
      >
        {gpuModels.slice(0, SHOWN_MODELS).map((model) => (
          <GpuModelBar key={model.gpuModel} model={model} />
        ))}
      </ul>
      {others.length > 0 && (
        <p className="mt-3 text-xs text-muted">
          and {count(sum(others), 'GPU')} of {count(others.length, 'other model')}
        </p>
      )}
    </>
  )
}

function GpuModelBar({ model: { gpuModel, total, rented, faulty } }: { model: GpuModel }) {
  const free = Math.max(0, total - rented - faulty)
  const share = (gpus: number): string => `${(100 * gpus) / Math.max(1, total)}%`
  return (
    <li className="flex min-w-0 flex-col gap-1 text-sm">
      <span className="flex items-baseline justify-between gap-2">
        <span className="truncate font-medium" title={gpuModel}>
          {shortGpuLabel(gpuModel)}
        </span>
        <span className="shrink-0 text-xs whitespace-nowrap text-muted tabular-nums">
          {number(rented)} of {number(total)}
        </span>
      </span>
      <span aria-hidden="true" className="flex h-2 overflow-hidden rounded-full bg-sunken">
        <span className="bg-accent" style={{ width: share(rented) }} />
        <span className="bg-bad" style={{ width: share(faulty) }} />
      </span>
      <span className="text-xs text-muted">
        {number(free)} free
        {faulty > 0 && <span className="font-medium text-bad">, {number(faulty)} faulty</span>}
      </span>
    </li>
  )
}

function sum(models: readonly GpuModel[]): number {
  return models.reduce((gpus, { total }) => gpus + total, 0)
}
