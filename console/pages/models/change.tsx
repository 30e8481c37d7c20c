/** Changes a model. Only changed values are sent; requests in progress keep their price. */
import type { Model } from '../../../src/view/model.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalNumber, optionalText } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { CheckField, TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { toast } from '../../ui/toast.tsx'
import { changedPrices, PriceFields, pricesOf } from './price.tsx'

const flags = [
  ['enabled', 'Enabled', 'A disabled model is neither listed nor served.'],
  ['supportsTools', 'Supports tool calls', undefined],
  ['supportsImageInput', 'Supports image input', undefined],
] as const

export function ChangeModelDialog({ model, onClose }: { model: Model; onClose: () => void }) {
  const form = useCallForm('changeModel', {
    input: { query: { name: model.name } },
    refreshes: ['listOperatedModels', 'listModels'],
    initial: {
      ...pricesOf(model),
      contextTokens: String(model.contextTokens ?? ''),
      maxOutputTokens: String(model.maxOutputTokens ?? ''),
      enabled: model.enabled,
      supportsTools: model.supportsTools,
      supportsImageInput: model.supportsImageInput,
      reason: '',
    },
    body: (values) => ({
      ...changedPrices(model.kind, values, model),
      contextTokens: changed(optionalNumber(values.contextTokens) ?? null, model.contextTokens),
      maxOutputTokens: changed(optionalNumber(values.maxOutputTokens) ?? null, model.maxOutputTokens),
      enabled: changed(values.enabled, model.enabled),
      supportsTools: changed(values.supportsTools, model.supportsTools),
      supportsImageInput: changed(values.supportsImageInput, model.supportsImageInput),
      reason: optionalText(values.reason),
    }),
    onDone: () => {
      toast(`Changed ${model.name}.`)
      onClose()
    },
  })
  return (
    <FormDialog
      title={`Change ${model.name}`}
      form={form}
      action="Save changes"
      disabledReason={form.isDirty ? undefined : 'Nothing changed yet'}
      onClose={onClose}
    >
      <PriceFields kind={model.kind} form={form} />
      {(model.kind === 'chat' || model.kind === 'embedding') && (
        <div className="grid gap-3 sm:grid-cols-2">
          <TextField
            label="Context length (tokens)"
            inputMode="numeric"
            placeholder="From the engine"
            {...form.text('contextTokens')}
          />
          <TextField
            label="Maximum output (tokens)"
            inputMode="numeric"
            placeholder="No limit"
            {...form.text('maxOutputTokens')}
          />
        </div>
      )}
      {flags
        .filter(([name]) => name === 'enabled' || model.kind === 'chat')
        .map(([name, label, hint]) => (
          <CheckField key={name} label={label} {...(hint === undefined ? {} : { hint })} {...form.check(name)} />
        ))}
      <ReasonField {...form.text('reason')} hint="Optional. Recorded in the audit log." />
    </FormDialog>
  )
}

/** undefined is not sent. */
function changed<T>(value: T, before: T): T | undefined {
  return value === before ? undefined : value
}
