/** Models: state, prices, and the deployments that run them. */
import { count, number } from '../../../src/view/number.ts'
import { modelKindLabels, modelPrice, modelState, type Model, percentOf } from '../../../src/view/model.ts'
import { useState } from 'react'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { AddModelDialog } from './add.tsx'
import { ChangeModelDialog } from './change.tsx'
import { DeploymentDialog } from './deployment.tsx'
import { Deployments } from './deployments.tsx'

/** Downloads, health and load raise no events, so they are polled. */
const EVERY_MS = 3_000
const SHOWN_AT_FIRST = 30

export function ModelsPage() {
  const models = useCall('listOperatedModels', {}, { everyMs: EVERY_MS })
  const [isAdding, setAdding] = useState(false)
  const [q, setQ] = useState('')
  const [isWhole, setWhole] = useState(false)
  const add = (
    <Button look="primary" onClick={() => setAdding(true)}>
      Add model
    </Button>
  )
  return (
    <Page intro="Models run on this server’s engines or on external deployments." actions={add}>
      <Answer of={models} skeleton={<Skeleton rows={8} />}>
        {(reply) => {
          const matches = reply.models.filter((model) => model.name.toLowerCase().includes(q.trim().toLowerCase()))
          const visible = isWhole ? matches : matches.slice(0, SHOWN_AT_FIRST)
          return (
            <>
              {reply.models.length > 5 && (
                <TextField label="Search models" value={q} onChange={(event) => setQ(event.target.value)} />
              )}
              {reply.models.length === 0 && (
                <Empty title="No models yet">
                  Add a GGUF file for this server to run, or the URL of a server that runs a model.
                </Empty>
              )}
              {visible.map((model) => (
                <ModelCard key={model.name} model={model} />
              ))}
              {visible.length < matches.length && (
                <Button onClick={() => setWhole(true)}>Show all {count(matches.length, 'model')}</Button>
              )}
            </>
          )
        }}
      </Answer>
      {isAdding && <AddModelDialog onClose={() => setAdding(false)} />}
    </Page>
  )
}

function ModelCard({ model }: { model: Model }) {
  const [open, setOpen] = useState<'change' | 'delete' | 'deploy' | undefined>()
  const close = (): void => setOpen(undefined)
  const state = modelState(model)
  const download = model.local?.state === 'pulling' ? model.local : undefined
  const percent = download === undefined ? undefined : percentOf(download)
  const actions = (
    <div className="flex flex-wrap gap-2">
      <Button onClick={() => setOpen('deploy')} aria-label={`Add deployment to ${model.name}`}>
        Add deployment
      </Button>
      <Button onClick={() => setOpen('change')} aria-label={`Change ${model.name}`}>
        Change
      </Button>
      <Button look="quiet" onClick={() => setOpen('delete')} aria-label={`Delete ${model.name}`}>
        Delete
      </Button>
    </div>
  )
  return (
    <Card title={model.name} actions={actions}>
      <div className="flex flex-col gap-3">
        <Facts
          facts={[
            [
              'State',
              <span key="state" className="flex flex-wrap items-center gap-2">
                <Badge tone={state.tone}>{state.label}</Badge>
                {state.detail !== undefined && <span className="text-muted">{state.detail}</span>}
              </span>,
            ],
            ['Kind', `${modelKindLabels[model.kind]}${model.engine === null ? '' : `, engine ${model.engine}`}`],
            ['Price', modelPrice(model)],
            ...limitsOf(model),
          ]}
        />
        {download !== undefined && (
          <progress
            className="h-2 w-full max-w-md accent-accent"
            aria-label={`Download of ${model.name}`}
            max={100}
            {...(percent === undefined ? {} : { value: percent })}
          />
        )}
        <Deployments model={model} />
      </div>
      {open === 'change' && <ChangeModelDialog model={model} onClose={close} />}
      {open === 'deploy' && <DeploymentDialog model={model} onClose={close} />}
      {open === 'delete' && <DeleteModel model={model} onClose={close} />}
    </Card>
  )
}

function limitsOf(model: Model): ReadonlyArray<readonly [string, string]> {
  const { contextTokens, maxOutputTokens } = model
  if (contextTokens === null && maxOutputTokens === null) return []
  const context = contextTokens === null ? 'from the engine' : `${number(contextTokens)} tokens`
  return [['Context', `${context}${maxOutputTokens === null ? '' : `, output up to ${number(maxOutputTokens)}`}`]]
}

function DeleteModel({ model, onClose }: { model: Model; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Delete ${model.name}?`}
      action="Delete"
      word={model.name}
      operation="deleteModel"
      input={{ query: { name: model.name } }}
      refreshes={['listOperatedModels', 'listModels']}
      done={`Deleted ${model.name}.`}
      onClose={onClose}
    >
      Deletes the model and its {count(model.deployments.length, 'deployment')}. Customers can no longer use it. Past
      charges stay in the ledger.
    </ConfirmCall>
  )
}
