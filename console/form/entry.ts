/** The fields that a form lists, with what a page knows about them. */
import type { ComponentType, ReactNode } from 'react'
import type { CallableId } from '../../src/client/client.ts'
import type { Choice } from '../ui/field.tsx'
import type { FieldPath, FieldValues } from './field.ts'

/** The props of a custom control. */
export interface ControlProps {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | undefined
  readonly value: string
  readonly onChange: (event: { readonly target: { readonly value: string } }) => void
}

/** The differences between a field's look and the contract. */
export interface FieldLook<Op extends CallableId> {
  readonly label?: string
  /** null: no hint. */
  readonly hint?: ReactNode
  readonly placeholder?: string | undefined
  /** The choices with their labels, or only the ones that are possible here. */
  readonly choices?: readonly Choice[]
  readonly as?: 'block' | 'password' | ComponentType<ControlProps>
  readonly disabled?: boolean
  /** Converts text that is not empty to a part of the body. Absent: the text itself is the part. */
  readonly read?: (text: string) => unknown
  /** Returns other values that change with this one. */
  readonly also?: (value: string) => Partial<FieldValues<Op>>
}

export interface FieldGroup<Op extends CallableId> {
  readonly group: string
  readonly fields: ReadonlyArray<FieldEntry<Op>>
  /** Shows the fields when it is opened. */
  readonly isFolded?: true
}

/** A field by its path, a group of fields, or something to read between them. */
export type FieldEntry<Op extends CallableId> =
  | FieldPath<Op>
  | readonly [FieldPath<Op>, FieldLook<Op>]
  | FieldGroup<Op>
  | { readonly show: ReactNode }
  | false

export type Entries<Op extends CallableId> = ReadonlyArray<FieldEntry<Op>>

/** Returns the fields of a form with their looks, without groups and texts between them. */
export function flatten<Op extends CallableId>(
  entries: Entries<Op>,
): ReadonlyArray<readonly [FieldPath<Op>, FieldLook<Op>]> {
  return entries.flatMap((entry) => {
    if (entry === false) return []
    if (typeof entry === 'string') return [[entry, {}] as const]
    if ('show' in entry) return []
    return 'group' in entry ? flatten(entry.fields) : [entry]
  })
}
