/** Image generation with progress and cost. Images stay in the browser. */
import { getRouteApi } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import { nanoUsdOf, usdFromNumber } from '../../../src/base/money.ts'
import { imageSide } from '../../../src/contract/media.ts'
import { money } from '../../../src/view/money.ts'
import type { Model } from '../../api/inference.ts'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextArea } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Gallery, GenerationView } from './gallery.tsx'
import { useImages, type Images } from './generation.ts'
import type { GeneratedImage, ImageOrder } from './image.ts'
import { CodeButton } from '../playground/code.tsx'
import { ModelField, WithModel } from '../playground/model.tsx'
import { ParameterFields, readParameters, seedParameter, type Parameter, type Typed } from '../playground/parameter.tsx'
import { PlaygroundSkeleton } from '../playground/skeleton.tsx'
import { imageProtocols } from '../playground/protocol.ts'

const route = getRouteApi('/shell/images')

const EXAMPLE = 'a red apple'
const MAX_CHARS = 10_000
/** The server's defaults. */
const DEFAULTS = { width: 1024, height: 1024, steps: 30 }
/** Seeds are short enough to read and type. */
const SEEDS = 1_000_000

const side = { least: imageSide.minValue ?? 128, most: imageSide.maxValue ?? 2_496, isWhole: true } as const
const sides: readonly Parameter[] = [
  { name: 'width', label: 'Width', hint: 'Pixels.', ...side },
  { name: 'height', label: 'Height', hint: 'Pixels.', ...side },
]
const others: readonly Parameter[] = [
  {
    name: 'steps',
    label: 'Steps',
    hint: 'More steps take longer and cost more.',
    least: 1,
    most: 1_000,
    isWhole: true,
  },
  { name: 'cfg_scale', label: 'CFG scale', hint: 'How closely it follows the prompt.', least: 0, most: 50 },
  seedParameter,
]

export function ImagesPage() {
  const { model: modelId } = route.useSearch()
  return (
    <Page intro="Describe the image. The last 24 images stay in this browser.">
      <WithModel kind="image" modelId={modelId} skeleton={<PlaygroundSkeleton />}>
        {(model, models) => <Generator model={model} models={models} />}
      </WithModel>
    </Page>
  )
}

function Generator({ model, models }: { model: Model; models: readonly Model[] }) {
  const navigate = route.useNavigate()
  const generator = useImages()
  const [prompt, setPrompt] = useState('')
  const [negative, setNegative] = useState('')
  const [typed, setTyped] = useState<Typed>({ width: '512', height: '512', steps: '20' })
  const { values, faults } = readParameters([...sides, ...others], typed)
  const isWrong = Object.keys(faults).length > 0
  const order: ImageOrder = {
    model_name: model.id,
    prompt: prompt.trim() === '' ? EXAMPLE : prompt,
    ...(negative.trim() === '' ? {} : { negative_prompt: negative }),
    ...values,
  }
  const canGenerate = prompt.trim() !== '' && !isWrong && !generator.isBusy
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    if (canGenerate) generator.generate(order)
  }
  const again = ({ order: same, seed }: GeneratedImage): void => {
    const next = otherSeed(seed)
    setTyped({ ...typed, seed: String(next) })
    generator.generate({ ...same, seed: next })
  }
  return (
    <div className="grid items-start gap-5 lg:grid-cols-[22rem_minmax(0,1fr)]">
      <Card
        title="Image"
        actions={<CodeButton disabled={isWrong} make={() => imageProtocols(location.origin, order)} />}
      >
        <form onSubmit={submit} className="flex flex-col gap-4">
          <ModelField
            model={model}
            models={models}
            disabled={generator.isBusy}
            onChoose={(id) => void navigate({ search: { model: id }, replace: true })}
          />
          <TextArea
            label="Prompt"
            required
            maxLength={MAX_CHARS}
            value={prompt}
            placeholder={EXAMPLE}
            onChange={(event) => setPrompt(event.target.value)}
          />
          <TextArea
            label="Negative prompt"
            rows={2}
            maxLength={MAX_CHARS}
            value={negative}
            hint="Things to leave out."
            onChange={(event) => setNegative(event.target.value)}
          />
          <div className="grid grid-cols-2 items-start gap-3">
            <ParameterFields parameters={[...sides, ...others]} typed={typed} faults={faults} onChange={setTyped} />
          </div>
          <Submit
            note={isWrong ? '' : estimate(model, values)}
            canGenerate={canGenerate}
            onStop={generator.isBusy ? generator.stop : undefined}
          />
        </form>
      </Card>
      <Results generator={generator} order={order} onTryAgain={again} />
    </div>
  )
}

interface SubmitProps {
  readonly note: string
  readonly canGenerate: boolean
  /** Set while an image is generated. */
  readonly onStop: (() => void) | undefined
}

/** Two separate buttons: if one button changed its role, the click on Stop would submit the form. */
function Submit({ note, canGenerate, onStop }: SubmitProps) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-2">
      <p className="text-sm text-muted">{note}</p>
      {onStop === undefined ? (
        <Button key="generate" type="submit" look="primary" disabled={!canGenerate}>
          Generate
        </Button>
      ) : (
        <Button key="stop" onClick={onStop}>
          Stop
        </Button>
      )}
    </div>
  )
}

interface ResultsProps {
  readonly generator: Images
  readonly order: ImageOrder
  readonly onTryAgain: (image: GeneratedImage) => void
}

function Results({ generator: { generation, images, isBusy, generate, clear }, order, onTryAgain }: ResultsProps) {
  return (
    <div className="flex min-w-0 flex-col gap-5">
      {generation !== undefined && (
        <GenerationView generation={generation} onRetry={() => generate(generation.order ?? order)} />
      )}
      {images.length > 0 ? (
        <Gallery images={images} isBusy={isBusy} onTryAgain={onTryAgain} onClear={clear} />
      ) : (
        generation === undefined && <Empty title="No images yet">Enter a prompt and press Generate.</Empty>
      )}
    </div>
  )
}

/** The estimated cost. The price depends on pixels and steps only, so it is known in advance. */
function estimate({ pixel_step_price: price }: Model, values: Readonly<Record<string, number>>): string {
  const perMillion = price === undefined ? undefined : usdFromNumber(price)
  if (perMillion === undefined) return ''
  const { width, height, steps } = { ...DEFAULTS, ...values }
  const pixelSteps = BigInt(width) * BigInt(height) * BigInt(steps)
  return `Costs ${money(nanoUsdOf((pixelSteps * perMillion + 999_999n) / 1_000_000n))}`
}

function otherSeed(seed: number): number {
  const [drawn = 0] = crypto.getRandomValues(new Uint32Array(1))
  const next = drawn % SEEDS
  return next === seed ? next + 1 : next
}
