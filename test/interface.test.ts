/** The OpenAPI description matches the interface document exactly, and lists our additions. */
import { describe, expect, test } from 'vitest'
import { describeApi } from '../src/contract/openapi/openapi.ts'
import { decided, extensions } from './fixtures/beyond-interface.ts'
import {
  errorSchemas,
  operations,
  regionSets,
  statusesOnAnyPath,
  type InterfaceOperation,
} from './fixtures/interface.ts'
import { findDeviations, type Deviation, type Schema } from './interface-deviations.ts'
import { weaken } from './interface-weaken.ts'

interface Content {
  readonly content: Readonly<Record<string, { readonly schema: Schema }>>
}
interface Answer extends Content {
  readonly headers: Readonly<Record<string, unknown>>
}
interface Operation {
  readonly operationId: string
  readonly security: ReadonlyArray<Readonly<Record<string, readonly string[]>>>
  readonly parameters?: ReadonlyArray<{ $ref?: string; name?: string; in?: string; required?: boolean }>
  readonly requestBody?: Content & { readonly required: boolean }
  readonly responses: Readonly<Record<string, Answer>>
}
interface Description {
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly parameters: Readonly<Record<string, { name: string; in: string; required?: boolean }>>
    readonly securitySchemes: Readonly<Record<string, unknown>>
  }
}

const all = describeApi('all') as unknown as Description
const v2 = describeApi('v2') as unknown as Description
const isV2 = ({ path }: InterfaceOperation) => path.startsWith('/v2')

function descriptionOf(operation: InterfaceOperation): Description {
  return isV2(operation) ? v2 : all
}

function find(operation: InterfaceOperation): Operation {
  const found = descriptionOf(operation).paths[operation.path]?.[operation.method.toLowerCase()]
  if (found === undefined) throw new Error(`${operation.method} ${operation.path} is not in the description`)
  return found
}

/** All differences of one operation: body, response and parameters. */
function deviationsOf(name: string, operation: InterfaceOperation): Deviation[] {
  const described = find(operation)
  const { schemas, parameters } = descriptionOf(operation).components
  const found: Deviation[] = []
  const body = described.requestBody?.content['application/json']?.schema
  if (operation.body !== undefined && body !== undefined) {
    found.push(...findDeviations(body, operation.body, `${name}.body`, schemas))
  } else if (operation.body !== body) {
    found.push({ at: `${name}.body`, aspect: 'body', message: `${name}: only one of the two has a body` })
  }
  const answer = described.responses['200']?.content['application/json']?.schema ?? {}
  found.push(...findDeviations(answer, operation.answer, `${name}.answer`, schemas))
  for (const written of described.parameters ?? []) {
    const parameter = written.$ref === undefined ? written : parameters[written.$ref.split('/').at(-1) ?? '']
    const at = `${name}.${parameter?.in}.${parameter?.name}`
    const aspect = parameter?.required === true ? 'extra and required' : 'extra'
    found.push({ at, aspect, message: `${at} is a parameter that the interface does not have` })
  }
  return found
}

const deviations = Object.entries(operations).flatMap(([name, operation]) => deviationsOf(name, operation))
const isExtension = ({ at, aspect }: Deviation) => {
  const inAnswer = /\.answer[.[]/.test(at) && aspect.startsWith('extra')
  return (aspect === 'extra' || inAnswer) && extensions.includes(at)
}
const decisions = decided.flatMap(({ at, what }) => at.flatMap((at) => what.map((aspect) => `${at} ${aspect}`)))
const isDecided = ({ at, aspect }: Deviation) => decisions.includes(`${at} ${aspect}`)

describe.each(Object.entries(operations))('%s', (name, operation) => {
  const own = deviations.filter(({ at }) => at.startsWith(`${name}.`))

  test('has the interface’s fields, limits and defaults', () => {
    const open = own.filter((deviation) => !isExtension(deviation) && !isDecided(deviation))
    expect(open.map(({ message }) => message)).toEqual([])
  })

  test('has the contract’s operation id and requires a key where the interface does', () => {
    const { operationId, security } = find(operation)
    expect(operationId).toBe(name)
    expect(security).toEqual(operation.needsKey ? [{ Authorization: [] }] : [])
  })

  test('requires its body', () => {
    expect(find(operation).requestBody?.required).toBe(operation.body === undefined ? undefined : true)
  })

  test('lists the interface’s statuses with their schemas', () => {
    const { responses } = find(operation)
    const statuses = Object.keys(responses).map(Number)
    const listed = statuses.filter((status) => !statusesOnAnyPath.some((any) => any === status))
    expect(listed).toEqual([200, ...(operation.statuses ?? listed.slice(1))])
    for (const status of listed.filter((status) => status !== 200)) {
      const schema = isV2(operation) ? `error.${errorSchemas[status]}` : 'V1Error'
      expect(responses[status]?.content['application/json']?.schema).toEqual({ $ref: `#/components/schemas/${schema}` })
    }
  })

  test('documents the request id header', () => {
    const headers = Object.keys(find(operation).responses['200']?.headers ?? {})
    expect(headers).toContain('X-Request-Id')
    expect(headers.includes('X-Inference-Request-Id')).toBe(operation.inference === true)
  })

  test('streams where the interface does, or where streaming is a listed addition', () => {
    const streams = find(operation).responses['200']?.content['text/event-stream'] !== undefined
    expect(streams).toBe(operation.streams === true || extensions.includes(`${name}.body.stream`))
  })
})

test('version and security scheme match the interface', () => {
  expect(v2.info.version).toBe('2.0.0')
  expect(Object.keys(v2.components.securitySchemes)).toEqual(['Authorization'])
  expect(v2.components.securitySchemes['Authorization']).toMatchObject({ type: 'http', scheme: 'bearer' })
  const every = Object.values(v2.paths).flatMap((path) => Object.values(path))
  expect(every.filter(({ security }) => security[0]?.['Authorization'] === undefined)).toEqual([])
})

test('each error schema has the code of its name', () => {
  for (const code of Object.values(errorSchemas)) {
    const schema = v2.components.schemas[`error.${code}`]
    expect(schema).toMatchObject({ properties: { code: { const: code }, message: { type: 'string' } } })
    expect(schema?.['required']).toEqual(['message', 'code'])
  }
})

test('lists 404 only where the interface does', () => {
  const with404 = Object.values(operations).filter((op) => isV2(op) && find(op).responses['404'] !== undefined)
  expect(with404.map(({ method, path }) => `${method} ${path}`)).toEqual([
    'GET /v2/openapi.json',
    'GET /v2/alpha/on-demand/bare-metal-rentals',
    'GET /v2/alpha/on-demand/storage-volumes',
  ])
})

test('the transcription has the same sizes as the document', () => {
  const sizes = Object.fromEntries(Object.entries(regionSets).map(([name, set]) => [name, set.length]))
  expect(sizes).toEqual({
    fullRegions: 29,
    virtualMachineRegions: 22,
    bareMetalRegions: 7,
    storageRecordRegions: 28,
    storageCreateRegions: 28,
  })
  expect(regionSets.virtualMachineRegions.at(-1)).toBe('mock-region')
})

test('every listed extension and decision is still true', () => {
  const used = new Set(deviations.filter(isExtension).map(({ at }) => at))
  expect(extensions.filter((at) => !used.has(at))).toEqual([])
  const keys = new Set(deviations.filter(isDecided).map(({ at, aspect }) => `${at} ${aspect}`))
  expect(decisions.filter((key) => !keys.has(key))).toEqual([])
})

test('v2 differs from the document only by upper limits where the document has none', () => {
  const names = Object.entries(operations).flatMap(([name, operation]) => (isV2(operation) ? [`${name}.`] : []))
  const inV2 = decisions.filter((key) => names.some((name) => key.startsWith(name)))
  expect(inV2.filter((key) => !/\.body\.\S+ (maxLength|maxItems|maximum)$/.test(key))).toEqual([])
})

const v2Operations = Object.entries(operations).filter(([, operation]) => isV2(operation))

test.each(v2Operations)('the comparison detects a change to any rule of %s', (name, operation) => {
  const { requestBody, responses } = find(operation)
  const { schemas } = v2.components
  const parts = [
    [`${name}.body`, requestBody?.content['application/json']?.schema, operation.body],
    [`${name}.answer`, responses['200']?.content['application/json']?.schema, operation.answer],
  ] as const
  const unseen = parts.flatMap(([at, schema, shape]) => {
    if (schema === undefined || shape === undefined) return []
    return [...weaken(schema, schemas)]
      .filter(([, weaker]) =>
        findDeviations(weaker, shape, at, schemas).every((one) => isExtension(one) || isDecided(one)),
      )
      .map(([path]) => `${at}.${path}`)
  })
  // Fields outside the document are not compared, and our own upper limits may be missing there.
  const ownPaths = extensions.map((own) => own.replaceAll('[]', '.items'))
  const ours = decisions.map((key) => key.replace(' ', '.'))
  expect(unseen.filter((at) => !ours.includes(at) && !ownPaths.some((own) => at.startsWith(own)))).toEqual([])
})
