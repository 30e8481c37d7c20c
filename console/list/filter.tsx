/**
 * The filters above a list, described by their fields. Values are search parameters of the page; an empty value is left
 * out, and the page's schema ignores invalid ones.
 */
import type { ReactNode } from 'react'
import { SelectField, TextField, type Choice } from '../ui/field.tsx'
import { cx } from '../ui/class.ts'

interface FilterField<Search> {
  readonly name: keyof Search & string
  readonly label: string
  /** Fixed values. Without them the field is a text to search for. */
  readonly choices?: readonly Choice[]
  /** The choice that does not filter. Default "Any". */
  readonly any?: string
  readonly placeholder?: string
}

interface FilterBarProps<Search> {
  /** The name of the list, for screen readers. */
  readonly label: string
  readonly fields: ReadonlyArray<FilterField<Search>>
  readonly search: Search
  readonly onChange: (change: Partial<Search>) => void
  /** More fields and buttons. */
  readonly children?: ReactNode
}

export function FilterBar<Search extends object>(props: FilterBarProps<Search>) {
  const { label, fields, search, onChange, children } = props
  return (
    <div role="search" aria-label={label} className="flex flex-wrap items-end gap-3">
      {fields.map(({ name, label: fieldLabel, choices, any = 'Any', placeholder }) => {
        const shared = {
          label: fieldLabel,
          className: cx('w-full', choices === undefined ? 'sm:w-72' : 'sm:w-52'),
          value: String(search[name] ?? ''),
          onChange: (event: { target: { value: string } }) =>
            onChange({ [name]: event.target.value || undefined } as Partial<Search>),
        }
        return choices === undefined ? (
          <TextField key={name} type="search" maxLength={100} placeholder={placeholder} {...shared} />
        ) : (
          <SelectField key={name} choices={[{ value: '', label: any }, ...choices]} {...shared} />
        )
      })}
      {children}
    </div>
  )
}

/** Choices from values and their labels. */
export function choicesOf<Value extends string>(
  values: readonly Value[],
  labelOf: (value: Value) => string = String,
): Choice[] {
  return values.map((value) => ({ value, label: labelOf(value) }))
}

/** Choices from a table of labels. */
export function choicesIn(labels: Readonly<Record<string, string | readonly [string, ...unknown[]]>>): Choice[] {
  return Object.entries(labels).map(([value, label]) => ({
    value,
    label: typeof label === 'string' ? label : label[0],
  }))
}
