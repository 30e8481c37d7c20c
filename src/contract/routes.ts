/**
 * The parts of each operation that a client needs to call it. Builds replace this file by its value (`scripts/contract-as-data.ts`),
 * so that the console and commands load no schemas for it.
 */
import { api, type OperationId } from './api.ts'
import type { Endpoint } from './endpoint.ts'

export type Route = Pick<Endpoint, 'method' | 'path' | 'answers' | 'idempotent'>

export const routes = Object.fromEntries(
  Object.entries<Endpoint>(api).map(([operation, { method, path, answers, idempotent }]) => [
    operation,
    { method, path, answers, idempotent },
  ]),
) as Readonly<Record<OperationId, Route>>
