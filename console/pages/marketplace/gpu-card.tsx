/** A card per GPU model: memory, the lowest price, and how many are free. */
import { parseUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import { money } from '../../../src/view/money.ts'
import { count, number } from '../../../src/view/number.ts'
import { cx } from '../../ui/class.ts'

const MIB_PER_GIB = 1_024

interface GpuModel {
  readonly label: string
  readonly vramGb: number
  readonly free: number
  readonly total: number
  readonly machines: number
  readonly from: NanoUsd | undefined
}

interface GpuCardsProps {
  readonly counts: Reply<'countMachines'>
  readonly chosen: string | undefined
  /** The memory that the chosen template needs; 0: any. */
  readonly minVramGb: number
  readonly onChoose: (label: string | undefined) => void
}

export function GpuCards({ counts, chosen, minVramGb, onChoose }: GpuCardsProps) {
  return (
    <ul
      aria-label="Models"
      className="grid auto-cols-[10.5rem] grid-flow-col gap-2 overflow-x-auto p-0.5 pb-1 sm:auto-cols-auto sm:grid-flow-row sm:grid-cols-[repeat(auto-fill,minmax(10.5rem,1fr))] sm:overflow-visible"
    >
      {modelsOf(counts).map((model) => {
        const isChosen = model.label === chosen
        const isSmall = model.vramGb < minVramGb
        return (
          <li key={model.label}>
            <button
              type="button"
              aria-pressed={isChosen}
              onClick={() => onChoose(isChosen ? undefined : model.label)}
              className={cx(
                'flex h-full w-full flex-col gap-0.5 rounded-lg border px-3 py-2.5 text-left text-sm',
                isChosen ? 'border-accent bg-accent-soft' : 'border-line bg-surface hover:border-line-strong',
              )}
            >
              <span className="w-full truncate font-semibold">{model.label}</span>
              <span className="text-xs text-muted">
                {number(model.vramGb)} GB, {count(model.machines, 'machine')}
              </span>
              <span className="mt-1.5 tabular-nums">
                {model.from === undefined ? (
                  'No price'
                ) : (
                  <>
                    <span className="text-xs text-muted">from </span>
                    <span className="text-base font-semibold">{money(model.from)}</span>
                    <span className="text-xs text-muted"> /hr</span>
                  </>
                )}
              </span>
              <span className={cx('text-xs', model.free === 0 || isSmall ? 'text-muted' : 'text-good')}>
                {isSmall
                  ? `Template needs ${number(minVramGb)} GB`
                  : model.free === 0
                    ? 'None free'
                    : `${number(model.free)} of ${number(model.total)} free`}
              </span>
            </button>
          </li>
        )
      })}
    </ul>
  )
}

/**
 * GPU models, cheapest first. Vendors spell the name of a model in several ways, so models with the same label are
 * merged.
 */
function modelsOf({ gpuModels }: Reply<'countMachines'>): readonly GpuModel[] {
  const models = new Map<string, GpuModel>()
  for (const one of gpuModels) {
    const label = gpuLabel(one.name)
    const soFar = models.get(label)
    const from = one.fromPricePerGpuHourUsd === null ? undefined : parseUsd(one.fromPricePerGpuHourUsd)
    models.set(label, {
      label,
      vramGb: Math.max(soFar?.vramGb ?? 0, Math.round(one.gpuRamMib / MIB_PER_GIB)),
      free: (soFar?.free ?? 0) + one.gpusFree,
      total: (soFar?.total ?? 0) + one.gpusTotal,
      machines: (soFar?.machines ?? 0) + one.machines,
      from: lowest(soFar?.from, from),
    })
  }
  return [...models.values()].toSorted((a, b) => (a.from === b.from ? 0 : less(a.from, b.from) ? -1 : 1))
}

function lowest(a: NanoUsd | undefined, b: NanoUsd | undefined): NanoUsd | undefined {
  return less(a, b) ? a : b
}

/** A missing price counts as the highest. */
function less(a: NanoUsd | undefined, b: NanoUsd | undefined): boolean {
  return a !== undefined && (b === undefined || a < b)
}
