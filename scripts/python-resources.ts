/**
 * The classes with a method for each operation, written as asynchronous code; `python-sync.ts` makes the other half of it.
 * Methods that wait or follow events are written by hand in `_aio/` and are bases of these classes.
 */
import { contentTypeOf } from '../src/contract/endpoint.ts'
import { pascalCase, snakeCase } from './python-names.ts'
import type { Parameter, PythonOperation } from './python-operations.ts'
import { docstring, literal } from './python-schema.ts'
import type { ShapeWriter } from './python-shapes.ts'
import type { TypeWriter } from './python-types.ts'

/** Classes of `_aio/` with what is beyond single operations. */
const bases: Readonly<Record<string, string>> = {
  rentals: 'waits.RentalWaits',
  groups: 'waits.GroupWaits',
  volumes: 'waits.VolumeWaits',
  jobs: 'waits.JobWaits',
  deployments: 'waits.DeploymentWaits',
  batches: 'waits.BatchWaits',
  events: 'follow.EventFollow',
  'operator.events': 'follow.AccountEventFollow',
}

export interface Written {
  /** `operations.py` */
  readonly table: string
  /** `resources.py`, asynchronous */
  readonly resources: string
}

export function writeResources(all: readonly PythonOperation[], types: TypeWriter, shapes: ShapeWriter): Written {
  const table: string[] = []
  const methods = new Map<string, string[]>([['', []]])
  for (const operation of all) {
    for (let depth = 0; depth < operation.place.group.length; depth += 1) {
      const group = operation.place.group.slice(0, depth + 1).join('.')
      if (!methods.has(group)) methods.set(group, [])
    }
    // Streams of events are followed, never read once.
    if (operation.endpoint.answers === 'events') continue
    const described = describe(operation, types)
    table.push(writeRow(operation, described, shapes))
    methods.get(operation.place.group.join('.'))?.push(...writeMethods(operation, described, types))
  }
  return { table: table.join('\n'), resources: writeClasses(methods) }
}

interface Described {
  readonly constant: string
  readonly answer: string
  readonly item: string | undefined
  readonly chunk: string | undefined
  readonly kind: 'json' | 'text' | 'bytes'
}

function describe({ id, endpoint, answer, chunk, pages }: PythonOperation, types: TypeWriter): Described {
  const type = contentTypeOf(endpoint)
  const kind = type === 'application/json' ? 'json' : type.startsWith('text/') ? 'text' : 'bytes'
  return {
    constant: snakeCase(id).toUpperCase(),
    kind,
    answer: kind === 'json' ? types.answer(answer, `${id}_answer`) : kind === 'text' ? 'str' : 'bytes',
    item: pages === undefined ? undefined : types.answer(pages.item, `${id}_answer_${pages.items}`),
    chunk: chunk === undefined || kind !== 'json' ? undefined : types.answer(chunk, `${id}_chunk`),
  }
}

/** Names of models as other modules say them. */
function outside(type: string, module = 'models_'): string {
  const name = type.replaceAll('"', '').replace(/^Annotated\[(.*), Field\(.*\)\]/, '$1')
  return name.replaceAll(/(?<![.\w'])([A-Z]\w*)/g, (word) => (builtin.has(word) ? word : `${module}.${word}`))
}
const builtin = new Set(['Any', 'None', 'Literal', 'Usd', 'Number'])

function writeRow(
  operation: PythonOperation,
  { constant, answer, chunk, kind }: Described,
  shapes: ShapeWriter,
): string {
  const { endpoint, parameters, pages, queryShape, bodyShape } = operation
  const nullable = parameters.filter((one) => one.nullable && one.part !== 'path').map(({ python }) => literal(python))
  const facts = [
    literal(endpoint.method),
    literal(endpoint.path),
    literal(answer.replaceAll('"', '')),
    ...(kind === 'json' ? [] : [`kind=${literal(kind)}`, `accept=${literal(contentTypeOf(endpoint))}`]),
    ...(chunk === undefined ? [] : [`chunk=${literal(chunk.replaceAll('"', ''))}`]),
    ...(endpoint.idempotent === true ? ['idempotent=True'] : []),
    ...(endpoint.takes === 'multipart' ? ['form=True'] : []),
    ...(endpoint.restOfPath === true ? ['rest_of_path=True'] : []),
    ...(pages === undefined ? [] : [`style=${literal(pages.style)}`, `items=${literal(pages.items)}`]),
    ...named('query', shapes.shape(queryShape)),
    ...named('body', shapes.shape(bodyShape)),
    ...(nullable.length === 0 ? [] : [`nullable=frozenset({${nullable.join(', ')}})`]),
  ]
  return `${constant}: Operation[${outside(answer, 'models')}] = Operation(${facts.join(', ')})`
}

function named(name: string, shape: string): string[] {
  return shape === 'None' ? [] : [`${name}=${shape}`]
}

function writeMethods(operation: PythonOperation, described: Described, types: TypeWriter): string[] {
  const { method } = operation.place
  const { answer, item, chunk, kind, constant } = described
  const call = `self._transport.call(operations.${constant}, ${passed(operation)})`
  if (item !== undefined) {
    const size = operation.pages?.style === 'whole' ? '' : 'page_size=page_size, '
    const pages = `AsyncPages(self._transport, operations.${constant}, ${size}${passed(operation)})`
    return [
      define(operation, types, {
        name: method,
        returns: `AsyncPages[${outside(item)}]`,
        body: `return ${pages}`,
        plain: true,
      }),
    ]
  }
  const main = define(operation, types, { name: method, returns: outside(answer), body: `return await ${call}` })
  const stream = (rows: string, type: string, rule: string): string =>
    define(operation, types, {
      name: method === 'create' ? 'stream' : `stream_${method}`,
      returns: `AsyncIterator[${type}]`,
      body: `return self._transport.${rows}(operations.${constant}, ${passed(operation)})`,
      plain: true,
      rule,
    })
  if (chunk !== undefined) return [main, stream('events', outside(chunk), 'Streams the answer as it is made.')]
  if (kind === 'text') return [main, stream('lines', 'str', 'Reads the answer line by line.')]
  if (kind === 'bytes') return [main, stream('pieces', 'bytes', 'Reads the answer in pieces.')]
  return [main]
}

function passed({ parameters, endpoint }: PythonOperation): string {
  const part = (name: Parameter['part']): string[] => {
    const rows = parameters.filter((one) => one.part === name)
    if (rows.length === 0) return []
    return [`${name}={${rows.map(({ python }) => `${literal(python)}: ${python}`).join(', ')}}`]
  }
  return [
    ...part('path'),
    ...part('query'),
    ...part('body'),
    'extra=extra',
    ...(endpoint.idempotent === true ? ['idempotency_key=idempotency_key'] : []),
    'timeout=timeout',
  ].join(', ')
}

interface Definition {
  readonly name: string
  readonly returns: string
  readonly body: string
  /** It returns at once, also in asynchronous code. */
  readonly plain?: boolean
  readonly rule?: string
}

function define(operation: PythonOperation, types: TypeWriter, definition: Definition): string {
  const { name, returns, body, plain = false } = definition
  const keyword = plain ? 'def' : 'async def'
  const overloads = operation.variants.map(
    (variant) => `    @overload\n    ${keyword} ${name}(${signature(operation, types, variant)}) -> ${returns}: ...\n`,
  )
  const all = signature(operation, types, operation.parameters)
  return [
    ...overloads,
    `    ${keyword} ${name}(${all}) -> ${returns}:`,
    docstring(explain(operation, definition), '        '),
    `        ${body}\n`,
  ].join('\n')
}

function signature(operation: PythonOperation, types: TypeWriter, parameters: readonly Parameter[]): string {
  const path = parameters.filter(({ part }) => part === 'path')
  const others = parameters.filter(({ part }) => part !== 'path')
  const sorted = [...others.filter(({ required }) => required), ...others.filter(({ required }) => !required)]
  return [
    'self',
    ...path.map(({ python, name }) => `${python}: ${/id$|port$/i.test(name) ? 'int | str' : 'str'}`),
    '*',
    ...sorted.map((one) => parameter(operation, types, one)),
    ...(operation.pages === undefined || operation.pages.style === 'whole' ? [] : ['page_size: int | None = None']),
    'extra: Mapping[str, Any] | None = None',
    ...(operation.endpoint.idempotent === true ? ['idempotency_key: str | None = None'] : []),
    'timeout: float | None = None',
  ].join(', ')
}

function parameter({ id }: PythonOperation, types: TypeWriter, one: Parameter): string {
  const type = types.input(one.schema, one.part === 'body' ? `${id}_${one.name}` : one.name)
  if (one.required) return `${one.python}: ${type}`
  return one.nullable
    ? `${one.python}: ${type} | Omit = OMIT`
    : `${one.python}: ${type === 'Any' ? 'Any' : `${type} | None`} = None`
}

function explain({ endpoint, parameters, pages }: PythonOperation, { rule }: Definition): string {
  const described = parameters.filter(({ description }) => description !== undefined)
  return [
    `${endpoint.summary}.`,
    ...(rule === undefined ? [] : ['', rule]),
    ...(endpoint.description === undefined ? [] : ['', endpoint.description]),
    ...(pages === undefined || pages.style === 'whole' ? [] : ['', 'Iterating reads page after page.']),
    ...(described.length === 0
      ? []
      : ['', ...described.map(({ python, description }) => `:param ${python}: ${description}`)]),
    '',
    `\`${endpoint.method} ${endpoint.path}\``,
  ].join('\n')
}

/** A class for each group, those inside it first; the last is the root, whose groups the client has. */
function writeClasses(methods: ReadonlyMap<string, readonly string[]>): string {
  const order = [...methods.keys()].toSorted((a, b) => b.split('.').length - a.split('.').length || (a < b ? -1 : 1))
  return [...order.filter((group) => group !== ''), '']
    .map((group) => {
      const inner = [...methods.keys()].filter(
        (one) => one !== '' && one.split('.').slice(0, -1).join('.') === group && one !== group,
      )
      const properties = inner.toSorted().map((one) => {
        const type = className(one)
        return `    @cached_property\n    def ${one.split('.').at(-1)}(self) -> ${type}:\n        return ${type}(self._transport)\n`
      })
      const base = group === '' ? 'Resource' : [bases[group], 'Resource'].filter(Boolean).join(', ')
      return `class ${group === '' ? 'Resources' : className(group)}(${base}):\n${[...properties, ...(methods.get(group) ?? [])].join('\n') || '    pass\n'}`
    })
    .join('\n\n')
}

function className(group: string): string {
  return `${pascalCase(group)}Resource`
}
