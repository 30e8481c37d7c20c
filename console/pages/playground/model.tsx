/** Which model is asked, what it costs and whether it can be asked now; and what to do where there is none. */
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
  /** By the address of the page; else the first that can be asked now. */
  readonly wanted: string | undefined
  readonly skeleton: ReactNode
  readonly children: (model: Model, models: readonly Model[]) => ReactNode
}

export function WithModel({ kind, wanted, skeleton, children }: WithModelProps) {
  const models = useModels()
  return (
    <Answer of={models} skeleton={skeleton}>
      {({ data }) => {
        const fitting = data.filter((model) => model.kind === kind)
        const chosen =
          fitting.find(({ id }) => id === wanted) ?? fitting.find(({ status }) => status === 'ready') ?? fitting[0]
        return chosen === undefined ? <NoModel kind={kind} /> : children(chosen, fitting)
      }}
    </Answer>
  )
}

const kindNames: Readonly<Record<ModelKind, string>> = {
  chat: 'chat model',
  image: 'picture model',
  speech: 'speech model',
  embedding: 'embedding model',
}

function NoModel({ kind }: { kind: ModelKind }) {
  const isOperator = useMay('operator')
  return (
    <Empty
      title={`There is no ${kindNames[kind]} yet`}
      action={
        isOperator && (
          <ButtonLink to="/operator/models" look="primary">
            Offer a model
          </ButtonLink>
        )
      }
    >
      {isOperator ? (
        'Offer one that this server runs itself, or name a server elsewhere that has one.'
      ) : (
        <>
          The operator of this server offers models, in the console under Models or with{' '}
          <code className="font-mono">berth models add</code>. This page shows them as soon as there are any.
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
          ? 'It is still being downloaded or started. Wait a moment: this page sees when it is ready.'
          : 'Nothing runs it at the moment. Choose another model, or ask the operator to start a server for it.'}
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
    parts.push(`${money(model.pixel_step_price)} per million pixels and step`)
  }
  if (context !== null) parts.push(`context of ${number(context)} tokens`)
  return parts.length === 0 ? 'What it costs stands beside each answer.' : `${parts.join('; ')}.`
}
