/** The input of an operation, from the flags and arguments of a command line. */
import type { Command, Option } from 'commander'
import type { CallableId, Client } from '../../client/client.ts'
import { NONE, optionsOf } from './flag.ts'
import type { Field, Operation } from '../../contract/field.ts'
import { operationNamed } from './operation-source.ts'
import { CliError, exitCodes } from './shell.ts'
import type { ArgSpec, Details, Input, Row } from './row-type.ts'

/** A field and the source of its value. */
export interface Source {
  readonly field: Field
  readonly arg: number | undefined
  readonly options: readonly Option[]
}

const PAGING = new Set(['limit', 'cursor', 'before', 'after'])

export function nameOf({ path }: Field): string {
  return path.at(-1) ?? ''
}

export function operationOf({ operation }: Pick<Row, 'operation'>): Operation | undefined {
  return operation === undefined ? undefined : operationNamed(operation)
}

export interface Arg extends ArgSpec {
  readonly name: string
}

/** The positional arguments, with the field that each one fills. */
export function argsOf(row: Pick<Row, 'args' | 'isCustom' | 'target' | 'operation'>): Arg[] {
  const fields = operationOf(row)?.fields ?? []
  return Object.entries(row.args ?? {}).map(([name, specOrHelp], at) => {
    const spec = typeof specOrHelp === 'string' ? { help: specOrHelp } : specOrHelp
    const word = /\w+/.exec(name)?.[0]
    const isFirst = at === 0 && row.target === undefined
    const namedField = fields.find((field) => nameOf(field) === word)
    const field = namedField ?? (isFirst ? fields.find(({ part }) => part === 'params') : undefined)
    return { name, ...(row.isCustom === true || field === undefined ? {} : { field: nameOf(field) }), ...spec }
  })
}

/**
 * Throws if the row names a field that the operation does not have. The tests build the whole tree, so this cannot
 * happen to users.
 */
export function sourcesOf(row: Row): Source[] {
  const operation = operationOf(row)
  if (operation === undefined) return []
  const { flags = {}, only, target, fixed = {}, defaults = {} } = row
  const args = argsOf(row)
  const fieldNames = new Set(operation.fields.map(nameOf))
  const named = [
    ...Object.keys(flags),
    ...Object.keys(fixed),
    ...Object.keys(defaults),
    ...(only ?? []),
    ...args.flatMap(({ field }) => field ?? []),
  ]
  const unknown = named.find((name) => !fieldNames.has(name))
  if (unknown !== undefined) throw new Error(`${row.command}: ${row.operation} has no field ${unknown}`)
  const targetField = target?.field ?? operation.fields.find(({ part }) => part === 'params')?.path.at(-1)
  return operation.fields.flatMap((declared): Source[] => {
    const name = nameOf(declared)
    const usual = defaults[name]
    const { required: _, ...optional } = declared
    const isOptional = usual !== undefined || row.isOptional?.includes(name) === true
    const field: Field = { ...(isOptional ? optional : declared), ...(usual === undefined ? {} : { default: usual }) }
    const isTarget = target !== undefined && name === targetField
    const at = args.findIndex((one) => one.field === name)
    if (isTarget || Object.hasOwn(fixed, name)) return []
    if (at >= 0) return [{ field, arg: at + (target === undefined ? 0 : 1), options: [] }]
    const isOurs = row.isPaged === true && PAGING.has(name)
    if (isOurs || flags[name] === false || (only !== undefined && !only.includes(name))) return []
    return [{ field, arg: undefined, options: optionsOf(field, flags[name]) }]
  })
}

export function buildInput(row: Row, sources: readonly Source[], command: Command, foundId: unknown): Input {
  const operation = operationOf(row)
  if (operation === undefined) return { parts: {} }
  const parts: Record<string, Record<string, unknown>> = {}
  const set = ({ part, path }: Field, value: unknown): void => {
    let place = (parts[part] ??= {})
    for (const name of path.slice(0, -1)) place = (place[name] ??= {}) as Record<string, unknown>
    place[path.at(-1) ?? ''] = value === NONE ? null : value
  }
  for (const field of operation.fields) {
    const name = nameOf(field)
    if (row.fixed !== undefined && Object.hasOwn(row.fixed, name)) set(field, row.fixed[name])
    else if (foundId !== undefined && name === (row.target?.field ?? 'id')) set(field, foundId)
  }
  for (const { field, arg, options } of sources) {
    const text: unknown = arg === undefined ? optionValue(command, options) : command.processedArgs[arg]
    const value = text ?? row.defaults?.[nameOf(field)]
    if (value !== undefined) set(field, value)
  }
  if (operation.fields.some(({ part }) => part === 'body')) parts['body'] ??= {}
  return { parts, ...(operation.idempotent === undefined ? {} : { isIdempotent: true }) }
}

function optionValue(command: Command, [option, off]: readonly Option[]): unknown {
  if (off !== undefined && command.getOptionValue(off.attributeName()) !== undefined) return false
  return option === undefined ? undefined : (command.getOptionValue(option.attributeName()) as unknown)
}

/** Rejects a change without any values, which is a mistake in the command line. */
export function checkChange(row: Pick<Row, 'operation' | 'command'> & Details, { parts: { body = {} } }: Input): void {
  if (operationOf(row)?.method !== 'PATCH' || Object.keys(body).some((name) => name !== 'reason')) return
  throw new CliError(exitCodes.usage, 'No changes were given.', [`Example: ${examplesOf(row)[0] ?? ''}`])
}

export function examplesOf({ command, args = {}, examples, ...row }: Pick<Row, 'command' | 'target'> & Details) {
  if (examples !== undefined) return examples
  const names = [...(row.target === undefined ? [] : [row.target.arg]), ...Object.keys(args)]
  const words = names.filter((name) => !name.startsWith('[')).map((name) => name.replaceAll(/[<>.]/g, '').toUpperCase())
  return [['berth', command, ...words].join(' ')]
}

/** The flag or argument with the value that the server rejects. */
export function flagFor(row: Row, sources: readonly Source[], path: readonly PropertyKey[]): string | undefined {
  const source = sources.find(({ field }) => field.path.every((name, at) => path[at] === name))
  if (source === undefined) return undefined
  return source.options[0]?.long ?? argsOf(row).find(({ field }) => field === nameOf(source.field))?.name
}

/** The typed client needs a statically known operation; here it can be any. */
export function callWith<T>(client: Client, operation: CallableId, input: object): Promise<T> {
  return (client as unknown as { call(operation: CallableId, input: object): Promise<T> }).call(operation, input)
}
