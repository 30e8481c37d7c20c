/** Choosing a model, with its price and availability. */
import type { ReactNode } from 'react'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { useMay } from '../../api/me.ts'
import { useModels, type Model, type ModelKind } from '../../api/inference.ts'
import { Answer } from '../../ui/answer.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Notice } from '../../ui/notice.tsx'

interface WithModelProps {
  readonly kind: ModelKind
  /** The model in the URL; otherwise the first one that is ready. */
  readonly modelId: string | undefined
  readonly skeleton: ReactNode
  readonly children: (model: Model, models: readonly Model[]) => ReactNode
}

export function WithModel({ kind, modelId, skeleton, children }: WithModelProps) {
  const models = useModels()
  return (
    <Answer of={models} skeleton={skeleton}>
      {({ data }) => {
        const fitting = data.filter((model) => model.kind === kind)
        const chosen =
          fitting.find(({ id }) => id === modelId) ?? fitting.find(({ status }) => status === 'ready') ?? fitting[0]
        return chosen === undefined ? <NoModel kind={kind} /> : children(chosen, fitting)
      }}
    </Answer>
  )
}

const kindNames: Readonly<Record<ModelKind, string>> = {
  chat: 'chat model',
  image: 'image model',
  speech: 'speech model',
  embedding: 'embedding model',
  rerank: 'reranking model',
  transcription: 'transcription model',
}

function NoModel({ kind }: { kind: ModelKind }) {
  const isOperator = useMay('operator')
  return (
    <Empty
      title={`No ${kindNames[kind]} available`}
      action={
        isOperator && (
          <ButtonLink to="/operator/models" look="primary">
            Add model
          </ButtonLink>
        )
      }
    >
      {isOperator ? (
        'Add one that this server runs, or connect a server that runs it.'
      ) : (
        <>
          The operator of this server can add one in the console or with{' '}
          <code className="font-mono">berth models create</code>.
        </>
      )}
    </Empty>
  )
}

interface ModelFieldProps {
  readonly model: Model
  readonly models: readonly Model[]
  readonly disabled?: boolean
  readonly onChoose: (id: string) => void
}

export function ModelField({ model, models, disabled, onChoose }: ModelFieldProps) {
  const price = priceOf(model)
  return (
    <div className="flex flex-col gap-2">
      <SelectField
        label="Model"
        value={model.id}
        disabled={disabled}
        onChange={(event) => onChoose(event.target.value)}
        choices={models.map(({ id, status }) => ({
          value: id,
          label: status === 'ready' || status === undefined ? id : `${id} (${status})`,
        }))}
        hint={price}
      />
      <NotReady model={model} />
    </div>
  )
}

function NotReady({ model: { status } }: { model: Model }) {
  if (status !== 'loading' && status !== 'unavailable') return null
  return (
    <div role="status">
      <Notice tone="warn">
        {status === 'loading'
          ? 'This model is still loading. The page updates when it is ready.'
          : 'This model is not running. Choose another one, or ask the operator to start it.'}
      </Notice>
    </div>
  )
}

function priceOf({ kind, context_length: context, input_price: input, output_price: output, ...model }: Model): string {
  const parts: string[] = []
  if (kind === 'chat' && input !== null && output !== null) {
    parts.push(`${money(input)} in, ${money(output)} out per million tokens`)
  }
  if (model.pixel_step_price !== undefined) {
    parts.push(`${money(model.pixel_step_price)} per megapixel-step`)
  }
  if (model.sound_ms_price !== undefined) {
    // A million milliseconds are 1,000 seconds.
    parts.push(`${money(model.sound_ms_price)} per 1,000 seconds of sound`)
  }
  if (context !== null) parts.push(`${number(context)}-token context`)
  return parts.length === 0 ? 'The cost is shown with each result.' : `${parts.join('; ')}.`
}
