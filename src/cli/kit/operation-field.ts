/** Reads one field of an operation, for a command that needs its choices or limits. */
import type { OperationId } from '../../contract/api.ts'
import type { Field } from '../../contract/field.ts'
import { operations } from '../../contract/operation-table.ts'

export function fieldOf(operation: OperationId, name: string): Field {
  const field = operations[operation].fields.find(({ path }) => path.at(-1) === name)
  if (field === undefined) throw new Error(`${operation} has no field ${name}`)
  return field
}
