/** The prices of a model as fields: those that its kind is paid by, and no others. */
import type { ClientError } from '../../../src/client/error.ts'
import type { ModelPriceName } from '../../../src/contract/model.ts'
import { fieldError } from '../../ui/field-error.ts'
import { TextField } from '../../ui/field.tsx'
import { pricesOfKind, type Model } from './state.ts'

export type Prices = { readonly [name in ModelPriceName]?: string }

interface PriceFieldsProps {
  readonly kind: Model['kind']
  readonly prices: Prices
  readonly onChange: (prices: Prices) => void
  readonly error: ClientError | null
}

export function PriceFields({ kind, prices, onChange, error }: PriceFieldsProps) {
  return pricesOfKind[kind].map(([name, label]) => (
    <TextField
      key={name}
      label={label}
      inputMode="decimal"
      placeholder={name === 'cachedUsdPerMillion' ? 'as the others' : '0.00'}
      value={prices[name] ?? ''}
      onChange={(event) => onChange({ ...prices, [name]: event.target.value })}
      error={fieldError(error, name)}
    />
  ))
}

/** Those of the kind that were typed and, where there are old ones, are others. */
export function changedPrices(kind: Model['kind'], prices: Prices, before: Partial<Model> = {}): Prices {
  const typed = pricesOfKind[kind].flatMap(([name]) => {
    const value = (prices[name] ?? '').trim()
    return value === '' || value === before[name] ? [] : [[name, value] as const]
  })
  return Object.fromEntries(typed)
}
