/** Changes a model. Only changed values are sent; requests in progress keep their price. */
import type { Model } from '../../../src/view/model.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { priceFields } from './price.ts'

export function ChangeModelDialog({ model, onClose }: { model: Model; onClose: () => void }) {
  const { kind } = model
  return (
    <FieldDialog
      operation="changeModel"
      input={{ query: { name: model.name } }}
      refreshes={['listOperatedModels', 'listModels']}
      title={`Change ${model.name}`}
      action="Save changes"
      before={model}
      fields={[
        ...priceFields(kind),
        (kind === 'chat' || kind === 'embedding') && 'contextTokens',
        (kind === 'chat' || kind === 'embedding') && 'maxOutputTokens',
        'enabled',
        kind === 'chat' && 'supportsTools',
        kind === 'chat' && 'supportsImageInput',
        ['reason', { hint: 'Optional. Recorded in the audit log.' }],
      ]}
      done={`Changed ${model.name}.`}
      onClose={onClose}
    />
  )
}
