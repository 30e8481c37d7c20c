/** A choice of days: presets, and two date fields. */
import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/field.tsx'
import type { presetsAt, Range } from './range.ts'

interface RangeBarProps {
  readonly range: Range
  readonly fault: string | undefined
  readonly presets: ReturnType<typeof presetsAt>
  readonly onChange: (range: Range) => void
}

export function RangeBar({ range, fault, presets, onChange }: RangeBarProps) {
  // A date field is empty while it is being typed.
  const change = (part: Partial<Range>): void => {
    if (Object.values(part).every((day) => day !== '')) onChange({ ...range, ...part })
  }
  return (
    <div className="flex flex-wrap items-end gap-x-4 gap-y-3">
      <div role="group" aria-label="Days" className="flex flex-wrap gap-1">
        {presets.map((preset) => {
          const isChosen = preset.from === range.from && preset.to === range.to
          return (
            <Button
              key={preset.name}
              look={isChosen ? 'primary' : 'secondary'}
              aria-pressed={isChosen}
              onClick={() => onChange({ from: preset.from, to: preset.to })}
            >
              {preset.name}
            </Button>
          )
        })}
      </div>
      <div className="flex flex-wrap gap-3">
        <TextField
          label="From"
          type="date"
          required
          value={range.from}
          error={fault}
          onChange={(event) => change({ from: event.target.value })}
        />
        <TextField
          label="To"
          type="date"
          required
          value={range.to}
          onChange={(event) => change({ to: event.target.value })}
        />
      </div>
    </div>
  )
}
