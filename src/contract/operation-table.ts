/** Every operation of the contract as plain data. The build replaces this module with its value. */
import { api, type OperationId } from './api.ts'
import { describeOperation, type Operation } from './field.ts'

export const operations = Object.fromEntries(
  Object.entries(api).map(([name, endpoint]) => [name, describeOperation(endpoint)]),
) as Readonly<Record<OperationId, Operation>>
