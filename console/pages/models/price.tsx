/** Price fields for the units that this kind of model is charged by. */
import { modelPriceNames, type ModelPriceName } from '../../../src/contract/model.ts'
import { pricesOfKind, type Model } from '../../../src/view/model.ts'
import { optionalText } from '../../form/read.ts'
import type { Form } from '../../form/use-form.ts'
import { TextField } from '../../ui/field.tsx'

export type Prices = { readonly [name in ModelPriceName]: string }

export function pricesOf(model: Partial<Model> = {}): Prices {
  return Object.fromEntries(modelPriceNames.map((name) => [name, model[name] ?? ''])) as Prices
}

export function PriceFields({ kind, form }: { kind: Model['kind']; form: Pick<Form<Prices>, 'text'> }) {
  return pricesOfKind[kind].map(([name, unit]) => (
    <TextField
      key={name}
      label={`USD per ${unit}`}
      inputMode="decimal"
      placeholder={name === 'cachedUsdPerMillion' ? 'Same as input' : '0.00'}
      {...form.text(name)}
    />
  ))
}

/** Prices of this kind that were entered and differ from before. */
export function changedPrices(kind: Model['kind'], prices: Prices, before: Partial<Model> = {}): Partial<Prices> {
  const typed = pricesOfKind[kind].flatMap(([name]) => {
    const value = optionalText(prices[name])
    return value === undefined || value === before[name] ? [] : [[name, value] as const]
  })
  return Object.fromEntries(typed)
}
