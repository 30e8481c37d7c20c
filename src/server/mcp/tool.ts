/**
 * A tool: its schemas, its hints, the operations it calls, and what it does. Tools decide nothing about access: every
 * operation that one calls goes through the same check, validation and use case as over HTTP (`operation-call.ts`).
 */
import type { Readable } from 'node:stream'
import { z } from 'zod'
import type { App } from '../../app/app.ts'
import type { MuxStream } from '../../base/net/mux.ts'
import type { OperationId } from '../../contract/api.ts'
import type { Result } from '../../contract/result.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { LogRequest } from '../handlers/rental-logs.ts'
import type { Authenticated } from '../http/authenticate.ts'
import type { CallOperation } from './operation-call.ts'
import type { Question } from './question.ts'

/** The way to the machines of this server's hosts. */
export interface Machines {
  openLogs(rental: Rental, request: LogRequest): Promise<Result<Readable>>
  openCommand(rental: Rental, command: readonly string[]): Result<MuxStream>
}

export interface ToolCall {
  readonly app: App
  readonly caller: Authenticated
  readonly machines: Machines
  readonly operate: CallOperation
  /** Aborts when the client has left or cancelled the call. */
  readonly signal: AbortSignal
}

export interface ToolValue<Value> {
  readonly value: Value
  /** For the audit log: what the call has committed, or has ended. */
  readonly costUsd?: string | undefined
  /** The thing that the call was about. */
  readonly subject?: string | undefined
  /** Values that no result may show. */
  readonly secrets?: readonly string[] | undefined
  /** Names the machine whose output the value is. Then the text of the answer is that output, in marks. */
  readonly machineText?: { readonly source: string; readonly text: (clean: Value) => string } | undefined
}

export interface ToolHints {
  readonly readOnlyHint?: boolean
  readonly destructiveHint?: boolean
  readonly idempotentHint?: boolean
  readonly openWorldHint?: boolean
}

export interface Tool {
  readonly name: string
  readonly description: string
  readonly input: z.ZodObject
  readonly output: z.ZodObject
  readonly hints: ToolHints
  readonly operations: readonly OperationId[]
  /** Absent: it asks nothing. undefined: this call needs no question. */
  readonly question?: (call: ToolCall, input: never) => Promise<Result<Question | undefined>>
  readonly run: (call: ToolCall, input: never) => Promise<Result<ToolValue<unknown>>>
}

interface ToolSpec<Input extends z.ZodObject, Output extends z.ZodObject> extends Omit<
  Tool,
  'input' | 'output' | 'question' | 'run'
> {
  readonly input: Input
  readonly output: Output
  readonly question?: (call: ToolCall, input: z.output<Input>) => Promise<Result<Question | undefined>>
  readonly run: (call: ToolCall, input: z.output<Input>) => Promise<Result<ToolValue<z.input<Output>>>>
}

export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(spec: ToolSpec<Input, Output>): Tool {
  return spec as unknown as Tool
}

export const readOnly = { readOnlyHint: true, openWorldHint: false } as const
/** Adds things and changes none; the same call again adds nothing. */
export const additive = { destructiveHint: false, idempotentHint: true, openWorldHint: false } as const
export const destructive = { destructiveHint: true, idempotentHint: true, openWorldHint: false } as const

/** How a user who cannot be asked confirms. */
export const confirm = z.string().max(300).optional().describe('The name, if told to')
