/**
 * Every input that a JSON schema rules out, and every input at its limits. Both are derived from a valid sample by
 * changing one thing at a time, so each has exactly one fault or none.
 */

export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | Schema
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly enum?: readonly string[]
  readonly const?: unknown
  readonly format?: string
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly multipleOf?: number
}
type Components = Readonly<Record<string, Schema>>

export interface Input {
  readonly what: string
  readonly value: unknown
}

export interface Fault extends Input {
  readonly path: ReadonlyArray<string | number>
  /** Missing, wrong type or unknown field; otherwise the right type but out of range. */
  readonly malformed: boolean
}

type Kind = 'string' | 'number' | 'boolean' | 'null' | 'array' | 'object'
const oneOfEach: Readonly<Record<Kind, unknown>> = {
  string: 'text',
  number: 7,
  boolean: true,
  null: null,
  array: [],
  object: {},
}

/** Inputs with one fault each. */
export function faultsOf(schema: Schema, value: unknown, components: Components): Fault[] {
  const forms = formsOf(schema, components)
  if (forms.length === 0) return []
  const taken = new Set(forms.map(kindOf))
  const mistyped = (Object.keys(oneOfEach) as Kind[])
    .filter((kind) => !taken.has(kind))
    .map((kind) => fault(`${kind} instead of ${[...taken].join(' or ')}`, oneOfEach[kind], true))
  const ofForms = forms.flatMap((form) => {
    // A fault in one variant can be valid in another: a list of numbers where strings or numbers are accepted.
    const others = forms.filter((other) => other !== form)
    return faultsOfForm(form, sampleFor(form, value, components), components).filter(
      (one) => !others.some((other) => fits(other, one.value, components, one.malformed ? 'type' : 'all')),
    )
  })
  return [...mistyped, ...ofForms]
}

function faultsOfForm(form: Schema, sample: unknown, components: Components): Fault[] {
  switch (kindOf(form)) {
    case 'string':
      return textFaults(form, sample as string)
    case 'number':
      return numberFaults(form)
    case 'array':
      return listFaults(form, sample as unknown[], components)
    case 'object':
      return objectFaults(form, sample as Record<string, unknown>, components)
    case 'boolean':
    case 'null':
      return []
  }
}

function fault(what: string, value: unknown, malformed = false): Fault {
  return { what, value, malformed, path: [] }
}

function textFaults(form: Schema, sample: string): Fault[] {
  const { minLength = 0, maxLength, pattern, format } = form
  return [
    ...(form.enum === undefined ? [] : [fault('none of the choices', 'no-such-choice')]),
    ...(format === undefined ? [] : [fault(`no ${format}`, 'of another form')]),
    // Text in place of a number that may be written as a string is a type error.
    ...(pattern === undefined
      ? []
      : [fault(`not of the form ${pattern}`, textUnlike(pattern), pattern.startsWith('^[1-9]'))]),
    ...(minLength === 0 ? [] : [fault('one character too short', 'a'.repeat(minLength - 1))]),
    ...(maxLength === undefined ? [] : [fault('one character too long', stretch(form, sample, maxLength + 1))]),
    fault('holds U+0000', `${sample}\0`),
    fault('holds half a character', `${sample}\ud800`),
  ]
}

function textUnlike(pattern: string): string {
  const form = new RegExp(pattern, 'u')
  const text = ['é of another form', ' '].find((candidate) => !form.test(candidate))
  if (text === undefined) throw new Error(`no text is known that is not of the form ${pattern}`)
  return text
}

const DOMAIN = /^([a-z0-9-]+\.)+[a-z]+$/

function stretch({ format }: Schema, sample: string, length: number): string {
  if (sample.startsWith('/')) return sample.padEnd(length, 'a')
  if (format === 'email' || DOMAIN.test(sample)) return sample.padStart(length, 'a')
  return format === 'uri' ? sample.padEnd(length, 'a') : 'a'.repeat(length)
}

function numberFaults(form: Schema): Fault[] {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf = 1 } = form
  return [
    ...(form.type === 'integer' ? [fault('a fraction', Math.max(minimum ?? 0, 0) + 0.5, true)] : []),
    ...(minimum === undefined ? [] : [fault('below the minimum', -beyond(-minimum, multipleOf))]),
    ...(exclusiveMinimum === undefined ? [] : [fault('at the exclusive minimum', exclusiveMinimum)]),
    ...(maximum === undefined ? [] : [fault('above the maximum', beyond(maximum, multipleOf))]),
    ...(exclusiveMaximum === undefined ? [] : [fault('at the exclusive maximum', exclusiveMaximum)]),
    ...(form.multipleOf === undefined ? [] : [fault('between two multiples', multipleOf * 1.5)]),
  ]
}

/** The next larger double. */
function beyond(edge: number, step: number): number {
  return edge + step > edge ? edge + step : beyond(edge, step * 2)
}

function listFaults(form: Schema, sample: readonly unknown[], components: Components): Fault[] {
  const { items = {}, minItems = 0, maxItems } = form
  const [item = sampleOf(items, components), ...rest] = sample
  return [
    ...(minItems === 0
      ? []
      : [
          fault(
            'too few items',
            Array.from({ length: minItems - 1 }, () => item),
          ),
        ]),
    ...(maxItems === undefined
      ? []
      : [
          fault(
            'too many items',
            Array.from({ length: maxItems + 1 }, () => item),
          ),
        ]),
    ...faultsOf(items, item, components).map((inner) => within(inner, 0, [inner.value, ...rest])),
  ]
}

function objectFaults(form: Schema, sample: Readonly<Record<string, unknown>>, components: Components): Fault[] {
  const { properties = {}, required = [], additionalProperties } = form
  const faults = Object.entries(properties).flatMap(([name, schema]) => {
    const { [name]: value = sampleOf(schema, components), ...others } = sample
    return [
      ...(required.includes(name) ? [{ ...fault('missing', others, true), path: [name] }] : []),
      ...faultsOf(schema, value, components).map((inner) => within(inner, name, { ...sample, [name]: inner.value })),
    ]
  })
  if (additionalProperties === false) {
    faults.push({ ...fault('unknown key', { ...sample, no_such_key: 1 }, true), path: ['no_such_key'] })
  } else if (typeof additionalProperties === 'object') {
    const value = sampleOf(additionalProperties, components)
    const inner = faultsOf(additionalProperties, value, components)
    faults.push(...inner.map((one) => within(one, 'some_key', { ...sample, some_key: one.value })))
  }
  return faults
}

function within(inner: Fault, at: string | number, value: unknown): Fault {
  return { ...inner, path: [at, ...inner.path], value }
}

/** Inputs at their limits, which must be accepted. */
export function edgesOf(schema: Schema, value: unknown, components: Components): Input[] {
  return formsOf(schema, components).flatMap((form): Input[] => {
    const sample = sampleFor(form, value, components)
    switch (kindOf(form)) {
      case 'string':
        return textEdges(form, sample as string)
      case 'number':
        return [form.minimum, form.maximum, form.multipleOf].flatMap((edge) =>
          edge === undefined || edge % (form.multipleOf ?? 1) !== 0 ? [] : [{ what: `${edge}`, value: edge }],
        )
      case 'array': {
        const [item = sampleOf(form.items ?? {}, components)] = sample as unknown[]
        return [form.minItems, form.maxItems].flatMap((length) =>
          length === undefined ? [] : [{ what: `${length} items`, value: Array.from({ length }, () => item) }],
        )
      }
      case 'object':
        return objectEdges(form, sample as Record<string, unknown>, components)
      case 'boolean':
        return form.const === undefined ? [{ what: 'false', value: false }] : []
      case 'null':
        return [{ what: 'null', value: null }]
    }
  })
}

function textEdges(form: Schema, sample: string): Input[] {
  const lengths = [form.minLength, form.maxLength].filter((length) => length !== undefined)
  return [
    ...(form.enum ?? []).map((choice) => ({ what: choice, value: choice })),
    ...lengths.map((length) => ({ what: `${length} characters`, value: stretch(form, sample, length) })),
  ]
}

/** Fields of which an input has only one, which the description cannot say: each takes the place of the other. */
const rivals: Readonly<Record<string, string>> = {
  machineId: 'gpuModel',
  gpuModel: 'machineId',
  volumes: 'newVolume',
  newVolume: 'volumes',
}

function objectEdges(form: Schema, sample: Readonly<Record<string, unknown>>, components: Components): Input[] {
  const { properties = {}, required = [] } = form
  return Object.entries(properties).flatMap(([name, schema]) => {
    const { [name]: value = sampleOf(schema, components), ...withoutName } = sample
    const rival = rivals[name] ?? ''
    const { [rival]: _, ...others } = withoutName
    const rivalSchema = properties[rival]
    const substitute = rivalSchema === undefined ? {} : { [rival]: sampleOf(rivalSchema, components) }
    return [
      ...(required.includes(name) ? [] : [{ what: `${name} left out`, value: { ...withoutName, ...substitute } }]),
      ...edgesOf(schema, value, components).map((inner) => ({
        what: `${name}: ${inner.what}`,
        value: { ...others, [name]: inner.value },
      })),
    ]
  })
}

/** The variant that accepts the value, without the fields that tell variants apart: a fault in one hides all others. */
export function variantOf(schema: Schema, value: unknown, components: Components): Schema {
  const [variant = schema, ...others] = formsOf(schema, components).filter((form) =>
    fits(form, value, components, 'all'),
  )
  if (others.length > 0) throw new Error('several variants accept the value')
  const properties = Object.entries(variant.properties ?? {}).filter(([, { const: only }]) => only === undefined)
  return { ...variant, properties: Object.fromEntries(properties) }
}

/** The variants a schema accepts. Empty: anything. */
function formsOf(schema: Schema, components: Components): Schema[] {
  const { $ref, anyOf, oneOf, type } = schema
  if ($ref !== undefined) return formsOf(components[$ref.split('/').at(-1) ?? ''] ?? {}, components)
  const options = anyOf ?? oneOf
  if (options !== undefined) return options.flatMap((option) => formsOf(option, components))
  if (typeof type === 'string') return [schema]
  return (type ?? []).map((one) => ({ ...schema, type: one }))
}

function kindOf(form: Schema): Kind {
  return form.type === 'integer' ? 'number' : (form.type as Kind)
}

function sampleFor(form: Schema, value: unknown, components: Components): unknown {
  return fits(form, value, components, 'type') ? value : sampleOf(form, components)
}

/** Whether the schema accepts the value, or ('type') would if its ranges were wider. */
function fits(schema: Schema, value: unknown, components: Components, against: 'type' | 'all'): boolean {
  const forms = formsOf(schema, components)
  const inside = (inner: Schema, entry: unknown) => fits(inner, entry, components, against)
  return forms.length === 0 || forms.some((form) => fitsForm(form, value, inside, against === 'all'))
}

function fitsForm(
  form: Schema,
  value: unknown,
  inside: (inner: Schema, entry: unknown) => boolean,
  inRange: boolean,
): boolean {
  if (form.const !== undefined) return value === form.const
  const kind = Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value
  if (kind !== kindOf(form) || (form.type === 'integer' && !Number.isInteger(value))) return false
  if (Array.isArray(value)) {
    const { items = {}, minItems = 0, maxItems = Infinity } = form
    if (inRange && (value.length < minItems || value.length > maxItems)) return false
    return value.every((entry) => inside(items, entry))
  }
  if (kind === 'object') {
    const { properties = {}, required = [], additionalProperties = true } = form
    const rest = typeof additionalProperties === 'object' ? additionalProperties : {}
    const entries = Object.entries(value as Record<string, unknown>)
    if (required.some((name) => !entries.some(([key]) => key === name))) return false
    return entries.every(([name, entry]) => {
      return (additionalProperties !== false || name in properties) && inside(properties[name] ?? rest, entry)
    })
  }
  return !inRange || isInRange(form, value)
}

function isInRange(form: Schema, value: unknown): boolean {
  if (typeof value === 'number') {
    const { minimum = -Infinity, maximum = Infinity } = form
    const { exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = form
    return value >= minimum && value <= maximum && value > exclusiveMinimum && value < exclusiveMaximum
  }
  if (typeof value !== 'string') return true
  const { minLength = 0, maxLength = Infinity } = form
  const isOfForm = form.enum === undefined ? isText(form, value) : form.enum.includes(value)
  // Not in any schema, but no string may contain these.
  const isSound = value.isWellFormed() && !value.includes('\0')
  return isSound && isOfForm && value.length >= minLength && value.length <= maxLength
}

/** Strings that match one of the contract's formats or patterns. */
const texts = [
  'aaaa',
  '1',
  '12.50',
  '2026-01',
  'ada@example.com',
  '2026-11-14T12:00:00Z',
  '2026-11-14',
  'https://127.0.0.1:9/',
  'file:/models/small.gguf',
  '0a'.repeat(32),
  '/tmp/a',
  '0644',
  '8888/http',
  '192.0.2.1',
]
const textsOfFormat: Readonly<Record<string, RegExp>> = {
  email: /@/,
  'date-time': /T.*Z$/,
  date: /^\d{4}-\d\d-\d\d$/,
  uri: /^http/,
  ipv4: /^\d+(\.\d+){3}$/,
}

/** A value that the schema accepts. */
function sampleOf(schema: Schema, components: Components): unknown {
  const [form] = formsOf(schema, components)
  if (form === undefined) return 'anything'
  switch (kindOf(form)) {
    case 'string':
      return form.const ?? form.enum?.[0] ?? texts.find((text) => isText(form, text)) ?? fail(form)
    case 'number':
      return form.multipleOf ?? Math.max(form.minimum ?? 1, 1)
    case 'boolean':
      return form.const ?? true
    case 'null':
      return null
    case 'array':
      return [sampleOf(form.items ?? {}, components)]
    case 'object': {
      const needed = (form.required ?? []).map((name) => [name, sampleOf(form.properties?.[name] ?? {}, components)])
      return Object.fromEntries(needed) as Record<string, unknown>
    }
  }
}

function isText({ pattern = '', format }: Schema, text: string): boolean {
  return new RegExp(pattern).test(text) && (format === undefined || (textsOfFormat[format] ?? /$^/).test(text))
}

function fail(schema: Schema): never {
  throw new Error(`no sample for ${JSON.stringify(schema)}`)
}
