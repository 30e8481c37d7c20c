/** The price fields for the units that a kind of model is charged by. */
import { pricesOfKind, type Model } from '../../../src/view/model.ts'

export function priceFields(kind: Model['kind']) {
  return pricesOfKind[kind].map(([name, unit]) => {
    const placeholder = name === 'cachedUsdPerMillion' ? 'Same as input' : '0.00'
    return [name, { label: `USD per ${unit}`, hint: null, placeholder }] as const
  })
}
