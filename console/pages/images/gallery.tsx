/** The image in progress, the selected one, and the others that this browser keeps. */
import { useState } from 'react'
import { count } from '../../../src/view/number.ts'
import { Button } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { cx } from '../../ui/class.ts'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Progress } from '../../ui/progress.tsx'
import type { Generation } from './generation.ts'
import type { GeneratedImage } from './image.ts'
import { DownloadLink } from '../../ui/download-link.tsx'
import { RequestCost } from '../playground/cost.tsx'

export function GenerationView({ generation, onRetry }: { generation: Generation; onRetry: () => void }) {
  const { state, step, steps, order, error, requestId } = generation
  if (error !== null) return <ErrorNotice error={error} onRetry={onRetry} />
  if (state === 'stopped') {
    return (
      <p role="status" className="rounded-lg border border-line bg-surface p-4 text-sm text-muted">
        Stopped{step === 0 ? '' : ` after ${count(step, 'step')}, which were billed`}:{' '}
        <RequestCost requestId={requestId} />
      </p>
    )
  }
  return (
    <Card>
      <p role="status" className="mb-2 text-sm font-medium">
        {progressLabel(generation)}
      </p>
      <Progress
        label="Image progress"
        max={steps ?? 1}
        value={state === 'running' && steps !== null ? step : undefined}
      />
      <p className="mt-2 truncate text-sm text-muted">{order.prompt}</p>
    </Card>
  )
}

function progressLabel({ state, ahead, step, steps }: Generation): string {
  if (state === 'running' && steps !== null) return `Step ${step} of ${steps}`
  if (ahead === null) return 'Waiting for the engine …'
  return ahead === 0 ? 'Next in the queue' : `${count(ahead, 'request')} ahead in the queue`
}

interface GalleryProps {
  readonly images: readonly GeneratedImage[]
  readonly isBusy: boolean
  readonly onTryAgain: (image: GeneratedImage) => void
  readonly onClear: () => void
}

export function Gallery({ images, isBusy, onTryAgain, onClear }: GalleryProps) {
  const [selectedId, setSelectedId] = useState<string>()
  const [newestId, setNewestId] = useState(images[0]?.requestId)
  // When a new image arrives, it becomes the selected one.
  if (newestId !== images[0]?.requestId) {
    setNewestId(images[0]?.requestId)
    setSelectedId(undefined)
  }
  const selected = images.find(({ requestId }) => requestId === selectedId) ?? images[0]
  if (selected === undefined) return null
  return (
    <>
      <Card>
        <div className="flex flex-col gap-4 2xl:flex-row">
          <img
            src={selected.url}
            alt={selected.order.prompt}
            width={selected.order.width ?? 1024}
            height={selected.order.height ?? 1024}
            className="h-auto max-h-[36rem] w-full min-w-0 rounded-md bg-sunken object-contain 2xl:w-2/3"
          />
          <div className="flex min-w-0 flex-1 flex-col gap-4">
            <ImageFacts image={selected} />
            <div className="flex flex-wrap gap-2">
              <DownloadLink href={selected.url} file={`image-${selected.seed}.png`} />
              <Button disabled={isBusy} onClick={() => onTryAgain(selected)}>
                Try another seed
              </Button>
              <Button look="quiet" disabled={isBusy} onClick={onClear}>
                Delete all
              </Button>
            </div>
          </div>
        </div>
      </Card>
      {images.length > 1 && (
        <ul aria-label="Images" className="flex flex-wrap gap-2">
          {images.map((image) => (
            <li key={image.requestId}>
              <button
                type="button"
                aria-label={`${image.order.prompt}, seed ${image.seed}`}
                aria-pressed={image === selected}
                onClick={() => setSelectedId(image.requestId)}
                className={cx(
                  'block overflow-hidden rounded-md border-2',
                  image === selected ? 'border-accent' : 'border-line',
                )}
              >
                <img src={image.url} alt="" className="size-20 object-cover" />
              </button>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function ImageFacts({ image: { order, seed, seconds, notes, requestId } }: { image: GeneratedImage }) {
  return (
    <Facts
      facts={[
        ['Prompt', order.prompt],
        ...(order.negative_prompt === undefined ? [] : [['Negative prompt', order.negative_prompt] as const]),
        ['Size', `${order.width ?? 1024} × ${order.height ?? 1024}`],
        ['Steps', order.steps ?? 30],
        ['Seed', seed],
        ['Time', `${seconds.toFixed(1)} s`],
        ['Cost', <RequestCost key="cost" requestId={requestId} />],
        ['Model', order.model_name],
        ...notes.map((note) => ['Note', note] as const),
      ]}
    />
  )
}
