/** The second step: the GPUs of a replica. Each card has the price and says whether the model fits. */
import { useState } from 'react'
import { nanoUsdOf, usd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { gpusLabel, shortGpuLabel } from '../../../src/view/gpu.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { count, number } from '../../../src/view/number.ts'
import { useMay } from '../../api/me.ts'
import { Fields } from '../../form/fields.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { ChoiceCard, ChoiceCards } from '../../ui/choice-card.tsx'
import { cx } from '../../ui/class.ts'
import { Notice } from '../../ui/notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import type { ChosenGpus, DeployOrder, GpuOption } from './order.ts'
import { isOwn } from './source.ts'

const SHOWN_GPUS = 6

interface GpuStepProps {
  readonly source: string
  /** The memory that the model needs; undefined: not known. */
  readonly minGb: number | undefined
  readonly order: DeployOrder
}

export function GpuStep({ source, minGb, order: { form, options, gpus } }: GpuStepProps) {
  return (
    <Answer of={options} skeleton={<Skeleton rows={4} />}>
      {(reply) =>
        reply.gpus.length === 0 ? (
          <NoGpus simulated={reply.simulated} />
        ) : (
          <div className="flex flex-col gap-4">
            {isOwn(source) && (
              <Fields
                form={form}
                wide
                entries={[
                  ['gpus.count', { placeholder: '1', hint: 'In one machine. The prices below are for all of them.' }],
                ]}
              />
            )}
            <GpuCards
              reply={reply}
              chosen={gpus}
              minGb={minGb}
              error={form.error('gpus.model')}
              onChoose={(gpuModel) => form.set({ 'gpus.model': gpuModel })}
            />
          </div>
        )
      }
    </Answer>
  )
}

interface GpuCardsProps {
  readonly reply: Reply<'listCatalogGpus'>
  readonly chosen: ChosenGpus | undefined
  readonly minGb: number | undefined
  readonly error: string | undefined
  readonly onChoose: (gpuModel: string) => void
}

function GpuCards({ reply: { gpus, simulated }, chosen, minGb, error, onChoose }: GpuCardsProps) {
  const [showsAll, setShowsAll] = useState(false)
  const first = showsAll ? gpus : gpus.slice(0, SHOWN_GPUS)
  // The chosen one stays in sight.
  const cards = chosen === undefined || first.includes(chosen.option) ? first : [chosen.option, ...first]
  const times = chosen === undefined ? 1 : chosen.count / chosen.option.gpuCount
  return (
    <div className="flex flex-col gap-3">
      <ChoiceCards label="GPU" value={chosen?.option.gpuModel} onChange={onChoose} error={error}>
        {cards.map((gpu) => (
          <GpuCard key={gpu.gpuModel} gpu={gpu} times={times} minGb={minGb} />
        ))}
      </ChoiceCards>
      {gpus.length > SHOWN_GPUS && (
        <Button look="quiet" className="self-start" onClick={() => setShowsAll(!showsAll)}>
          {showsAll ? 'Show fewer GPUs' : `Show all ${count(gpus.length, 'GPU model')}`}
        </Button>
      )}
      {simulated > 0 && (
        <p className="text-xs text-muted">
          {count(simulated, 'more GPU model')} {simulated === 1 ? 'is' : 'are'} free on simulated machines, which cannot
          run models.
        </p>
      )}
    </div>
  )
}

interface GpuCardProps {
  readonly gpu: GpuOption
  /** A replica has this many times the GPUs of the option; by the choice of the order, the same for all cards. */
  readonly times: number
  readonly minGb: number | undefined
}

function GpuCard({ gpu, times, minGb }: GpuCardProps) {
  const { gpuModel, gpuCount, gpuMemoryGb, costPerHourUsd, fits, whyNotReason } = gpu
  const gpus = gpuCount * times
  const name = shortGpuLabel(gpuModel)
  const price = nanoUsdOf(usd(costPerHourUsd) * BigInt(times))
  return (
    <ChoiceCard
      value={gpuModel}
      title={gpus === 1 ? name : gpusLabel(gpus, name)}
      disabled={!fits}
      aside={<span className="shrink-0 font-medium tabular-nums">{hourlyPrice(price)}</span>}
    >
      <span className="flex items-baseline justify-between gap-2 text-xs text-muted">
        <span>
          {number(gpuMemoryGb)} GB{gpus > 1 && ' each'}
        </span>
        {(!fits || minGb !== undefined) && (
          <span className={cx('text-right', fits && 'font-medium text-good')}>
            {fits ? 'fits' : whyNot(whyNotReason, minGb)}
          </span>
        )}
      </span>
    </ChoiceCard>
  )
}

function whyNot(reason: string | null, minGb: number | undefined): string {
  if (reason === 'driver_too_old') return 'its driver is too old'
  if (reason === 'gpu_vendor_differs') return 'no engine for it'
  return minGb === undefined ? 'does not fit' : `too small, needs ${number(minGb)} GB`
}

function NoGpus({ simulated }: { simulated: number }) {
  const maySell = useMay('supply')
  return (
    <Notice>
      <p className="font-medium">No GPU that can run a model is free.</p>
      <p>
        {simulated > 0 && 'The free machines are simulated: they can be rented, but cannot run models. '}
        {maySell ? (
          <>
            <TextLink to="/supply/join">Join a machine</TextLink> with a GPU, or wait until one is free.
          </>
        ) : (
          'Wait until one is free.'
        )}
      </p>
    </Notice>
  )
}
