/** A picture on its way, the one that is looked at, and the others of this visit. */
import { useState } from 'react'
import { count } from '../../../src/view/number.ts'
import { Button } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { cx } from '../../ui/class.ts'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Progress } from '../../ui/progress.tsx'
import type { Painting, Picture } from './painting.ts'
import { DownloadLink } from '../playground/download.tsx'
import { RequestCost } from '../playground/cost.tsx'

export function PaintingView({ painting, onRetry }: { painting: Painting; onRetry: () => void }) {
  const { state, step, steps, order, error, requestId } = painting
  if (error !== null) return <ErrorNotice error={error} onRetry={onRetry} />
  if (state === 'stopped') {
    return (
      <p role="status" className="rounded-lg border border-line bg-surface p-4 text-sm text-muted">
        Stopped{step === 0 ? '' : ` after ${count(step, 'step')}, which are paid for`}:{' '}
        <RequestCost requestId={requestId} />
      </p>
    )
  }
  return (
    <Card>
      <p role="status" className="mb-2 text-sm font-medium">
        {wordsOf(painting)}
      </p>
      <Progress
        label="Progress of the picture"
        most={steps ?? 1}
        value={state === 'painting' && steps !== null ? step : undefined}
      />
      <p className="mt-2 truncate text-sm text-muted">{order.prompt}</p>
    </Card>
  )
}

function wordsOf({ state, ahead, step, steps }: Painting): string {
  if (state === 'painting' && steps !== null) return `Step ${step} of ${steps}`
  if (ahead === null) return 'Waiting for the engine…'
  return ahead === 0 ? 'It is next' : `${count(ahead, 'request')} before it`
}

interface GalleryProps {
  readonly pictures: readonly Picture[]
  readonly isBusy: boolean
  readonly onAgain: (picture: Picture) => void
}

export function Gallery({ pictures, isBusy, onAgain }: GalleryProps) {
  const [chosenId, setChosenId] = useState<string>()
  const [newestId, setNewestId] = useState(pictures[0]?.requestId)
  // A new picture is looked at first.
  if (newestId !== pictures[0]?.requestId) {
    setNewestId(pictures[0]?.requestId)
    setChosenId(undefined)
  }
  const chosen = pictures.find(({ requestId }) => requestId === chosenId) ?? pictures[0]
  if (chosen === undefined) return null
  return (
    <>
      <Card>
        <div className="flex flex-col gap-4 2xl:flex-row">
          <img
            src={chosen.url}
            alt={chosen.order.prompt}
            width={chosen.order.width ?? 1024}
            height={chosen.order.height ?? 1024}
            className="h-auto max-h-[36rem] w-full min-w-0 rounded-md bg-sunken object-contain 2xl:w-2/3"
          />
          <div className="flex min-w-0 flex-1 flex-col gap-4">
            <PictureFacts picture={chosen} />
            <div className="flex flex-wrap gap-2">
              <DownloadLink href={chosen.url} file={`picture-${chosen.seed}.png`} />
              <Button disabled={isBusy} onClick={() => onAgain(chosen)}>
                Same with another seed
              </Button>
            </div>
          </div>
        </div>
      </Card>
      {pictures.length > 1 && (
        <ul aria-label="Pictures of this visit" className="flex flex-wrap gap-2">
          {pictures.map((picture) => (
            <li key={picture.requestId}>
              <button
                type="button"
                aria-label={`${picture.order.prompt}, seed ${picture.seed}`}
                aria-pressed={picture === chosen}
                onClick={() => setChosenId(picture.requestId)}
                className={cx(
                  'block overflow-hidden rounded-md border-2',
                  picture === chosen ? 'border-accent' : 'border-line',
                )}
              >
                <img src={picture.url} alt="" className="size-20 object-cover" />
              </button>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function PictureFacts({ picture: { order, seed, seconds, notes, requestId } }: { picture: Picture }) {
  return (
    <Facts
      facts={[
        ['Prompt', order.prompt],
        ...(order.negative_prompt === undefined ? [] : [['Not to be seen', order.negative_prompt] as const]),
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
