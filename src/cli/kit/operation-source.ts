/** The table of operations, which is loaded only for commands that call one, so that the others start faster. */
import type { OperationId } from '../../contract/api.ts'
import type { Operation } from '../../contract/field.ts'

let table: Readonly<Record<OperationId, Operation>> | undefined

export async function loadOperations(): Promise<void> {
  table ??= (await import('../../contract/operation-table.ts')).operations
}

export function operationNamed(id: OperationId): Operation {
  if (table === undefined) throw new Error('the table of operations is not loaded')
  return table[id]
}
