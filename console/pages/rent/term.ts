/** For how long one binds oneself, and what that saves, as a choice. */
import type { NanoUsd } from '../../../src/base/money.ts'
import type { TermQuote } from '../../../src/domain/term.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import type { RadioChoice } from '../../ui/radio-choice.ts'

export function termChoices(terms: readonly TermQuote[], listPrice: NanoUsd): RadioChoice[] {
  return [
    { value: '', label: 'On demand', detail: hourlyPrice(listPrice) },
    ...terms.map(({ days, percentage, perHour }) => ({
      value: String(days),
      label: `${days} days, −${percentage} %`,
      detail: hourlyPrice(perHour),
    })),
  ]
}
