/** Prices and other facts of a model. Only what was changed is sent; requests under way keep their price. */
import { useState, type FormEvent } from 'react'
import { useAction } from '../../api/query.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { CheckField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { changedPrices, PriceFields, type Prices } from './price.tsx'
import { pricesOfKind, type Model } from './state.ts'

const flags = [
  ['enabled', 'Offered', 'Off: it is kept, but neither listed nor served.'],
  ['supportsTools', 'Can call tools', undefined],
  ['supportsImageInput', 'Can look at pictures', undefined],
] as const

export function ChangeModelDialog({ model, onClose }: { model: Model; onClose: () => void }) {
  const action = useAction('changeModel', ['listOperatedModels', 'listModels'])
  const [prices, setPrices] = useState<Prices>(() =>
    Object.fromEntries(pricesOfKind[model.kind].map(([name]) => [name, model[name]])),
  )
  const [limits, setLimits] = useState({
    contextTokens: String(model.contextTokens ?? ''),
    maxOutputTokens: String(model.maxOutputTokens ?? ''),
  })
  const [switches, setSwitches] = useState({
    enabled: model.enabled,
    supportsTools: model.supportsTools,
    supportsImageInput: model.supportsImageInput,
  })
  const [reason, setReason] = useState('')
  const change = {
    ...changedPrices(model.kind, prices, model),
    ...changedLimit('contextTokens', limits.contextTokens, model.contextTokens),
    ...changedLimit('maxOutputTokens', limits.maxOutputTokens, model.maxOutputTokens),
    ...Object.fromEntries(flags.flatMap(([name]) => (switches[name] === model[name] ? [] : [[name, switches[name]]]))),
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    const why = reason.trim() === '' ? {} : { reason: reason.trim() }
    action.mutate(
      { query: { name: model.name }, body: { ...change, ...why } },
      {
        onSuccess: () => {
          toast(`${model.name} is changed.`)
          onClose()
        },
      },
    )
  }
  const names = pricesOfKind[model.kind].map(([name]) => name)
  const beside = errorBesideFields(action.error, [...names, 'contextTokens', 'maxOutputTokens', 'reason'])
  const hasTokens = model.kind === 'chat' || model.kind === 'embedding'
  return (
    <Dialog title={`Change ${model.name}`} onClose={onClose}>
      <form onSubmit={submit} noValidate className="flex flex-col gap-4">
        <PriceFields kind={model.kind} prices={prices} onChange={setPrices} error={action.error} />
        {hasTokens && (
          <div className="grid gap-3 sm:grid-cols-2">
            <TextField
              label="Context in tokens"
              inputMode="numeric"
              placeholder="as the engine says"
              value={limits.contextTokens}
              onChange={(event) => setLimits({ ...limits, contextTokens: event.target.value })}
              error={fieldError(action.error, 'contextTokens')}
            />
            <TextField
              label="Longest answer in tokens"
              inputMode="numeric"
              placeholder="no limit"
              value={limits.maxOutputTokens}
              onChange={(event) => setLimits({ ...limits, maxOutputTokens: event.target.value })}
              error={fieldError(action.error, 'maxOutputTokens')}
            />
          </div>
        )}
        {flags
          .filter(([name]) => name === 'enabled' || model.kind === 'chat')
          .map(([name, label, hint]) => (
            <CheckField
              key={name}
              label={label}
              {...(hint === undefined ? {} : { hint })}
              checked={switches[name]}
              onChange={(event) => setSwitches({ ...switches, [name]: event.target.checked })}
            />
          ))}
        <TextField
          label="Reason"
          hint="For the audit log; may stay empty."
          value={reason}
          onChange={(event) => setReason(event.target.value)}
          error={fieldError(action.error, 'reason')}
        />
        {beside !== null && <ErrorNotice error={beside} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton
            busy={action.isPending}
            disabledReason={Object.keys(change).length === 0 ? 'Nothing is changed yet' : undefined}
          >
            Change it
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

/** What is no number goes as one that the server refuses at its field. */
export function readWhole(text: string): number {
  return /^\d{1,12}$/.test(text.trim()) ? Number.parseInt(text, 10) : 0
}

function changedLimit(
  name: 'contextTokens' | 'maxOutputTokens',
  text: string,
  before: number | null,
): { readonly contextTokens?: number | null; readonly maxOutputTokens?: number | null } {
  const value = text.trim() === '' ? null : readWhole(text)
  return value === before ? {} : { [name]: value }
}
