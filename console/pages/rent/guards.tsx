/** What every order may have: a name of one's own, and guards against a machine that was forgotten. */
import { formatInstant, parseInstant, type Instant } from '../../../src/base/instant.ts'
import { limits } from '../../../src/base/limits.ts'
import { parseUsd } from '../../../src/base/money.ts'
import { TextField } from '../../ui/field.tsx'

/** As they are typed. */
export interface GuardTexts {
  readonly label: string
  /** In the browser's own time: `2026-11-15T12:00`. */
  readonly endsAt: string
  readonly limitUsd: string
}

export const noGuards: GuardTexts = { label: '', endsAt: '', limitUsd: '' }

export interface Guards {
  readonly label?: string
  readonly endsAt?: string
  readonly limitUsd?: string
}

type GuardFaults = { readonly [name in keyof GuardTexts]?: string | undefined }

/** What an order says, or what is wrong at which field. */
export function readGuards(texts: GuardTexts, now: Instant): { readonly guards: Guards; readonly faults: GuardFaults } {
  const [label, endsText, limitUsd] = [texts.label.trim(), texts.endsAt, texts.limitUsd.trim()]
  const endsAt = endsText === '' ? undefined : parseInstant(endsText)
  const limit = parseUsd(limitUsd)
  return {
    guards: {
      ...(label === '' ? {} : { label }),
      ...(endsAt === undefined ? {} : { endsAt: formatInstant(endsAt) }),
      ...(limitUsd === '' ? {} : { limitUsd }),
    },
    faults: {
      ...(label.length > limits.labelChars ? { label: `At most ${limits.labelChars} characters` } : {}),
      ...(endsText !== '' && (endsAt === undefined || endsAt <= now) ? { endsAt: 'Choose a time in the future' } : {}),
      ...(limitUsd !== '' && (limit === undefined || limit <= 0n) ? { limitUsd: 'An amount such as 25.00' } : {}),
    },
  }
}

export function hasFaults(faults: Readonly<Record<string, string | undefined>>): boolean {
  return Object.values(faults).some((fault) => fault !== undefined)
}

interface GuardFieldsProps {
  readonly texts: GuardTexts
  readonly faults: GuardFaults
  readonly onChange: (texts: GuardTexts) => void
}

export function GuardFields({ texts, faults, onChange }: GuardFieldsProps) {
  const field = (name: keyof GuardTexts) => ({
    value: texts[name],
    error: faults[name],
    onChange: (event: { target: { value: string } }) => onChange({ ...texts, [name]: event.target.value }),
  })
  return (
    <div className="grid gap-3 sm:grid-cols-3">
      <TextField label="Label" hint="A name of your own." placeholder="training" {...field('label')} />
      <TextField label="Ends at" hint="Ends by itself then." type="datetime-local" {...field('endsAt')} />
      <TextField
        label="Spending limit"
        hint="Ends when it has cost this much, in USD."
        placeholder="25.00"
        inputMode="decimal"
        {...field('limitUsd')}
      />
    </div>
  )
}
