/** The fields of every request body, by operation and path. The build replaces this module with its value. */
import type { OperationId } from '../../src/contract/api.ts'
import type { Field } from '../../src/contract/field.ts'
import { operations } from '../../src/contract/operation-table.ts'

/** The schemas check patterns, so a form does not need them. */
export type FormField = Omit<Field, 'part' | 'path' | 'pattern' | 'hint'>

export const fieldTable = Object.fromEntries(
  Object.entries(operations).map(([operation, { fields }]) => [
    operation,
    Object.fromEntries(
      fields.filter(({ part }) => part === 'body').map((field) => [field.path.join('.'), lean(field)]),
    ),
  ]),
) as Readonly<Record<OperationId, Readonly<Record<string, FormField>>>>

function lean(field: Field): FormField {
  const { part: _part, path: _path, pattern: _pattern, hint: _hint, ...others } = field
  return others
}
