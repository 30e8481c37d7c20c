/** The first step: a model of the catalog, one of the hub, or an own image. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { modelKindLabels } from '../../../src/view/model.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { count } from '../../../src/view/number.ts'
import { Button } from '../../ui/button.tsx'
import { ChoiceCard, ChoiceCards } from '../../ui/choice-card.tsx'
import { TextField } from '../../ui/field.tsx'
import { HUB, IMAGE } from './source.ts'

export type CatalogModel = Reply<'listCatalog'>['models'][number]

/** Without a search; two rows on a wide screen. */
const SHOWN_MODELS = 6

interface ModelChoiceProps {
  readonly models: readonly CatalogModel[]
  readonly source: string
  readonly error: string | undefined
  /** query: what was searched for, which may be the name of a model of the hub. */
  readonly onChoose: (source: string, query: string) => void
}

export function ModelChoice({ models, source, error, onChoose }: ModelChoiceProps) {
  const [query, setQuery] = useState('')
  const [showsAll, setShowsAll] = useState(false)
  const matching = models.filter((model) => isMatch(model, query))
  const first = query === '' && !showsAll ? matching.slice(0, SHOWN_MODELS) : matching
  // The chosen one stays in sight.
  const chosenModel = models.filter(({ id }) => id === source && !first.some((one) => one.id === id))
  const cards = [...chosenModel, ...first]
  return (
    <div className="flex flex-col gap-3">
      <TextField
        type="search"
        label="Search models"
        hideLabel
        placeholder="Search models, or type a name of Hugging Face"
        maxLength={200}
        value={query}
        onChange={(event) => setQuery(event.target.value)}
      />
      <ChoiceCards
        label="Model"
        value={source === '' ? undefined : source}
        error={error}
        onChange={(value) => onChoose(value, query)}
      >
        {cards.map((model) => (
          <ModelCard key={model.id} model={model} />
        ))}
        <ChoiceCard value={HUB} title="From Hugging Face">
          <span className="text-xs text-muted">Any model that vLLM, SGLang or another engine runs</span>
        </ChoiceCard>
        <ChoiceCard value={IMAGE} title="Own image">
          <span className="text-xs text-muted">A container that answers like OpenAI’s API</span>
        </ChoiceCard>
      </ChoiceCards>
      {query !== '' && matching.length === 0 && (
        <p className="text-sm text-muted">The catalog has no such model. Choose “From Hugging Face” to use its name.</p>
      )}
      {query === '' && matching.length > SHOWN_MODELS && (
        <Button look="quiet" className="self-start" onClick={() => setShowsAll(!showsAll)}>
          {showsAll ? 'Show fewer models' : `Show all ${count(matching.length, 'model')}`}
        </Button>
      )}
    </div>
  )
}

function ModelCard({ model: { id, title, kind, minGb, fit } }: { model: CatalogModel }) {
  return (
    <ChoiceCard value={id} title={title} aside={<span className="shrink-0 text-xs text-muted">{minGb} GB</span>}>
      <span className="flex items-baseline justify-between gap-2 text-xs text-muted">
        <span>{modelKindLabels[kind]}</span>
        <span className="tabular-nums">{fit === null ? 'no GPU free' : `from ${hourlyPrice(fit.costPerHourUsd)}`}</span>
      </span>
    </ChoiceCard>
  )
}

function isMatch({ id, title, kind }: CatalogModel, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/)
  const text = `${id} ${title} ${modelKindLabels[kind]}`.toLowerCase()
  return words.every((word) => text.includes(word))
}
