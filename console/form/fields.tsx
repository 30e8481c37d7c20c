/** Fields of an operation, each with the control, label, hint and limits from the contract. */
import type { InputHTMLAttributes, ReactNode } from 'react'
import type { CallableId } from '../../src/client/client.ts'
import { DateField } from '../ui/date-field.tsx'
import { CheckField, CheckList, SelectField, TextArea, TextField, type Choice } from '../ui/field.tsx'
import type { FormField } from './field-table.ts'
import type { FieldEntry, FieldGroup, FieldLook } from './entry.ts'
import type { FieldForm } from './field-form.ts'
import { fieldAt, hintOf, labelOf, type FieldPath, type FieldValues, type Value } from './field.ts'

interface FieldsProps<Op extends CallableId> {
  readonly form: FieldForm<Op>
  /** Default: all fields of the form. */
  readonly entries?: ReadonlyArray<FieldEntry<Op>>
  /** Two columns where there is room. */
  readonly wide?: boolean
}

export function Fields<Op extends CallableId>({ form, entries = form.entries, wide = false }: FieldsProps<Op>) {
  return (
    <div className={wide ? 'grid items-start gap-4 sm:grid-cols-2' : 'flex flex-col gap-4'}>
      {entries.map((entry, at) => {
        if (entry === false) return null
        if (typeof entry === 'string') return <OneField key={entry} form={form} path={entry} look={{}} />
        // Their positions do not change, so the position is a key.
        if ('show' in entry) return <Across key={at}>{entry.show}</Across>
        if ('group' in entry) return <Group key={entry.group} form={form} group={entry} wide={wide} />
        const [path, look] = entry
        return <OneField key={path} form={form} path={path} look={look} />
      })}
    </div>
  )
}

function Across({ children }: { children: ReactNode }) {
  return <div className="flex flex-col gap-4 empty:hidden sm:col-span-full">{children}</div>
}

interface GroupProps<Op extends CallableId> {
  readonly form: FieldForm<Op>
  readonly group: FieldGroup<Op>
  readonly wide: boolean
}

/** A folded group opens by itself when one of its fields has an error. */
function Group<Op extends CallableId>({ form, group: { group, fields, isFolded }, wide }: GroupProps<Op>) {
  const inner = <Fields form={form} entries={fields} wide={wide} />
  if (isFolded !== true) {
    return (
      <fieldset className="min-w-0 sm:col-span-full">
        <legend className="mb-2 text-sm font-semibold">{group}</legend>
        {inner}
      </fieldset>
    )
  }
  const isWrong = fields.some((entry) => {
    const path = typeof entry === 'string' ? entry : Array.isArray(entry) ? (entry[0] as FieldPath<Op>) : undefined
    return path !== undefined && form.error(path) !== undefined
  })
  return (
    <details className="rounded-md border border-line p-3 sm:col-span-full" open={isWrong || undefined}>
      <summary className="cursor-pointer text-sm font-medium">{group}</summary>
      <div className="mt-3">{inner}</div>
    </details>
  )
}

interface OneFieldProps<Op extends CallableId> {
  readonly form: FieldForm<Op>
  readonly path: FieldPath<Op>
  readonly look: FieldLook<Op>
}

function OneField<Op extends CallableId>({ form, path, look }: OneFieldProps<Op>) {
  const field = fieldAt(form.operation, path)
  const value: Value | undefined = form.values[path]
  const { label = labelOf(path, field), as: Control, also, disabled, placeholder = placeholderOf(field) } = look
  const choices = look.choices ?? field.choices?.map((choice) => ({ value: choice, label: choice }))
  const hint = look.hint === null ? undefined : (look.hint ?? chosenHint(choices, value) ?? hintOf(field))
  const set = (next: unknown, more?: Partial<FieldValues<Op>>): void => form.set({ ...more, [path]: next })
  const error = form.error(path)
  const shared = { label, hint, error, ...(disabled === undefined ? {} : { disabled }) }
  if (typeof value === 'boolean') {
    return <CheckField {...shared} checked={value} onChange={(event) => set(event.target.checked)} />
  }
  if (typeof value === 'object') {
    return <CheckList {...shared} choices={choices ?? []} chosen={value} onChange={set} />
  }
  const text = {
    ...shared,
    value: value ?? '',
    onChange: (event: { readonly target: { readonly value: string } }) =>
      set(event.target.value, also?.(event.target.value)),
  }
  if (typeof Control === 'function' || typeof Control === 'object') return <Control {...text} />
  if (choices !== undefined) {
    return <SelectField {...text} choices={look.choices === undefined ? withNone(choices, field) : choices} />
  }
  if (field.kind === 'time') return <DateField {...text} />
  const required = field.required === true && { 'aria-required': true as const }
  if (Control === 'block') {
    const area = { rows: 4, spellCheck: false, placeholder, className: 'sm:col-span-full' }
    return <TextArea {...text} {...required} {...area} />
  }
  return <TextField {...text} {...required} {...inputOf(path, field, Control)} placeholder={placeholder} />
}

function chosenHint(choices: readonly Choice[] | undefined, value: unknown): string | undefined {
  return choices?.find((choice) => choice.value === value)?.hint
}

function placeholderOf({ default: usual, example }: FormField): string | undefined {
  return usual === undefined ? example : String(usual)
}

/** Adds an entry for the server's default to a choice that may be left out. */
function withNone(choices: readonly Choice[], { required, default: usual }: FormField): readonly Choice[] {
  return required !== true && usual === undefined ? [{ value: '', label: 'Default' }, ...choices] : choices
}

type Input = Pick<InputHTMLAttributes<HTMLInputElement>, 'type' | 'autoComplete' | 'inputMode' | 'min' | 'max' | 'step'>

function inputOf(path: string, field: FormField, as: 'password' | undefined): Input {
  const { kind, list, min, max, step } = field
  if (as === 'password') return { type: 'password', autoComplete: 'new-password' }
  if (list === true) return {}
  if (step !== undefined) return { type: 'number', min, max, step }
  if (kind === 'integer') return { inputMode: 'numeric' }
  if (kind === 'number' || path.includes('Usd')) return { inputMode: 'decimal' }
  return /email$/i.test(path) ? { type: 'email' } : {}
}
