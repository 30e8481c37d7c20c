/** A number that can be typed, with a slider for the mouse. Empty: the default. */
import type { ComponentProps } from 'react'
import { TextField } from './field.tsx'

interface SliderFieldProps extends Omit<
  ComponentProps<typeof TextField>,
  'value' | 'onChange' | 'min' | 'max' | 'step'
> {
  readonly value: string
  readonly onChange: (event: { readonly target: { readonly value: string } }) => void
  readonly min: number
  readonly max: number
  readonly step: number
}

export function SliderField({ min, max, step, value, onChange, className, ...field }: SliderFieldProps) {
  const at = Number.parseFloat(value)
  const start = Number.parseFloat(field.placeholder ?? '')
  return (
    <div className={className}>
      <TextField inputMode="decimal" value={value} onChange={onChange} {...field} />
      {/* The text field has the same value for the keyboard and for screen readers. */}
      <input
        type="range"
        aria-hidden="true"
        tabIndex={-1}
        min={min}
        max={max}
        step={step}
        value={Number.isNaN(at) ? (Number.isNaN(start) ? min : start) : at}
        onChange={onChange}
        disabled={field.disabled}
        className="mt-1.5 block h-4 w-full cursor-pointer accent-accent"
      />
    </div>
  )
}
