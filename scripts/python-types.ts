/**
 * Types of the Python client. Answers become pydantic models, nested values of requests become `TypedDict`s, and lists of
 * choices become aliases that both share. A choice is open: a newer server may have more.
 */
import { type JsonObject } from '../src/contract/openapi/openapi-schema.ts'
import { fieldName, pascalCase, pythonName } from './python-names.ts'
import {
  docstring,
  fieldsOf,
  isNullable,
  isObject,
  isRequired,
  literal,
  markOf,
  optionsOf,
  refOf,
  textOf,
} from './python-schema.ts'

const MAX_INLINE_CHOICES = 3
/** Answers that contain a secret once. `repr` leaves it out. */
const SECRET = /^(key|secret|token|password|link|joinCommand|command)$/

export interface TypeWriter {
  /** The type of an answer; `name` is for its class if it has none. */
  answer(schema: JsonObject, name: string): string
  /** The type of a value in a request. */
  input(schema: JsonObject, name: string): string
  /** The texts of the three modules, without their heads. */
  choices(): string
  models(): string
  inputs(): string
  /** The names of the models, for `__all__`. */
  modelNames(): string[]
  inputNames(): string[]
}

type Components = Readonly<Record<string, JsonObject>>

export function makeTypeWriter(components: Components): TypeWriter {
  const choices = new Choices()
  const models = new Models(components, choices)
  const inputs = new Inputs(components, choices)
  return {
    answer: (schema, name) => models.typeOf(schema, name),
    input: (schema, name) => inputs.typeOf(schema, name),
    choices: () => choices.text(),
    models: () => [...models.classes.values()].join('\n\n'),
    inputs: () => [...inputs.classes.values()].join('\n\n'),
    modelNames: () => [...models.classes.keys()],
    inputNames: () => [...inputs.classes.keys()],
  }
}

/** Aliases of string choices, by their values. */
class Choices {
  readonly #names = new Map<string, string>()

  typeOf(values: readonly string[], hint: string): string {
    const text = `Literal[${values.map((value) => literal(value)).join(', ')}]`
    if (values.length <= MAX_INLINE_CHOICES) return `${text} | str`
    const name = this.#names.get(text) ?? this.#freeName(hint)
    this.#names.set(text, name)
    return `choices.${name}`
  }

  /** That of the field, unless another list of choices has it. */
  #freeName(hint: string): string {
    const used = new Set(this.#names.values())
    const short = pascalCase(hint.slice(hint.indexOf('_') + 1))
    const long = pascalCase(hint)
    let free = used.has(short) ? long : short
    for (let number = 2; used.has(free); number += 1) free = `${long}${number}`
    return free
  }

  text(): string {
    return [...this.#names].map(([text, name]) => `${name}: TypeAlias = ${text} | str`).join('\n')
  }
}

const scalars: Readonly<Record<string, string>> = { string: 'str', boolean: 'bool', integer: 'int' }

/** The shared part of both kinds of types. */
abstract class Types {
  /** Texts by name, each after those that it needs. */
  readonly classes = new Map<string, string>()
  readonly #open = new Set<string>()
  /** The names of nested objects, by their text. */
  readonly #nested = new Map<string, string>()
  protected readonly components: Components
  protected readonly choices: Choices

  constructor(components: Components, choices: Choices) {
    this.components = components
    this.choices = choices
  }

  abstract typeOf(schema: JsonObject, name: string): string
  protected abstract writeClass(name: string, schema: JsonObject, inUnion: boolean): string

  /** A reference to the class of an object, which is written if it is new. */
  protected classOf(schema: JsonObject, hint: string, inUnion = false): string {
    const text = JSON.stringify(schema) + String(inUnion)
    const name = this.#nested.get(text) ?? this.#freeName(hint)
    this.#nested.set(text, name)
    if (this.#open.has(name)) return `"${name}"`
    if (!this.classes.has(name)) {
      this.#open.add(name)
      const body = this.writeClass(name, schema, inUnion)
      this.#open.delete(name)
      this.classes.set(name, body)
    }
    return name
  }

  #freeName(hint: string): string {
    const used = new Set(this.#nested.values())
    let name = pascalCase(hint)
    for (let number = 2; used.has(name); number += 1) name = `${pascalCase(hint)}${number}`
    return name
  }

  protected resolve(schema: JsonObject): JsonObject {
    const ref = refOf(schema)
    return ref === undefined ? schema : (this.components[ref] ?? {})
  }

  protected scalar(schema: JsonObject, hint: string): string | undefined {
    if (schema['type'] === 'null') return 'None'
    if (Array.isArray(schema['enum'])) {
      return this.choices.typeOf(
        (schema['enum'] as Array<string | null>).filter((value) => value !== null),
        hint,
      )
    }
    return scalars[schema['type'] as string]
  }
}

class Models extends Types {
  typeOf(schema: JsonObject, name: string, inUnion = false): string {
    const ref = refOf(schema)
    if (ref !== undefined) return this.typeOf(this.resolve(schema), ref, inUnion)
    const mark = markOf(schema)
    if (mark !== undefined) return mark === 'money' ? 'Usd' : 'datetime'
    if (schema['const'] !== undefined) {
      const one = `Literal[${literal(schema['const'])}]`
      return inUnion || typeof schema['const'] !== 'string' ? one : `${one} | str`
    }
    const options = optionsOf(schema)
    if (options !== undefined) return this.#union(options, name)
    if (schema['type'] === 'number') return 'Number'
    if (schema['type'] === 'array') {
      const item = isObject(schema['items']) ? this.typeOf(schema['items'], name) : 'Any'
      return `list[${item}]`
    }
    if (schema['type'] === 'object') {
      if (fieldsOf(schema).length > 0) return this.classOf(schema, name, inUnion)
      const values = schema['additionalProperties']
      return `dict[str, ${isObject(values) ? this.typeOf(values, name) : 'Any'}]`
    }
    return this.scalar(schema, name) ?? 'Any'
  }

  #union(options: readonly JsonObject[], name: string): string {
    const solid = options.filter((option) => option['type'] !== 'null')
    const objects = solid.filter((option) => fieldsOf(this.resolve(option)).length > 0)
    const types = [
      ...new Set(
        solid.map((option, at) =>
          this.typeOf(option, refOf(option) ?? variantName(option, name, at), objects.length > 1),
        ),
      ),
    ]
    if (types.includes('Any')) return 'Any'
    const none = options.length > solid.length ? ' | None' : ''
    if (objects.length < 2) return types.join(' | ') + none
    return `Annotated[${types.join(' | ')} | UnknownObject, Field(union_mode="left_to_right")]${none}`
  }

  protected override writeClass(name: string, schema: JsonObject, inUnion: boolean): string {
    const text = textOf(schema)
    const names = new Set<string>()
    const fields = fieldsOf(schema).map(([field, one]) => {
      // A few answers have a name twice, in both spellings.
      const python = names.has(fieldName(field)) ? `${fieldName(field)}_` : fieldName(field)
      names.add(python)
      const isTime = field === 'at' && one['type'] === 'string'
      const type = isTime ? 'datetime' : this.typeOf(one, `${name}_${field}`, inUnion && one['const'] !== undefined)
      const required = isRequired(schema, field)
      const facts = [
        ...(required ? [] : ['default=None']),
        ...(python === field ? [] : [`alias=${literal(field)}`]),
        ...(SECRET.test(field) && type.startsWith('str') ? ['repr=False'] : []),
      ]
      const full = required || type === 'Any' || type.endsWith('| None') ? type : `${type} | None`
      const value =
        facts.length === 0
          ? ''
          : facts[0] === 'default=None' && facts.length === 1
            ? ' = None'
            : ` = Field(${facts.join(', ')})`
      const description = textOf(one)
      return `    ${python}: ${full}${value}${description === undefined ? '' : `\n${docstring(description, '    ')}`}`
    })
    return [
      `class ${name}(BerthModel):`,
      ...(text === undefined ? [] : [docstring(text, '    '), '']),
      ...fields,
      '',
    ].join('\n')
  }
}

function variantName(option: JsonObject, name: string, at: number): string {
  const constant = fieldsOf(option).find(([, one]) => typeof one['const'] === 'string')?.[1]['const']
  return `${name}_${typeof constant === 'string' ? constant : at === 0 ? '' : at + 1}`
}

class Inputs extends Types {
  typeOf(schema: JsonObject, name: string): string {
    const ref = refOf(schema)
    if (ref !== undefined) return this.typeOf(this.resolve(schema), ref)
    const mark = markOf(schema)
    if (mark !== undefined) return mark === 'money' ? 'Usd' : 'Time'
    if (schema['format'] === 'binary') return 'FileInput'
    if (schema['const'] !== undefined) return schema['const'] === null ? 'None' : `Literal[${literal(schema['const'])}]`
    const options = optionsOf(schema)
    if (options !== undefined) {
      const types = new Set(
        options.map((option, at) => this.typeOf(option, refOf(option) ?? variantName(option, name, at))),
      )
      return types.has('Any')
        ? 'Any'
        : [...types].toSorted((a, b) => Number(a === 'None') - Number(b === 'None')).join(' | ')
    }
    if (schema['type'] === 'number') return 'float'
    if (schema['type'] === 'array') {
      return `Sequence[${isObject(schema['items']) ? this.typeOf(schema['items'], name) : 'Any'}]`
    }
    if (schema['type'] === 'object') {
      if (fieldsOf(schema).length > 0) return `inputs.${this.classOf(schema, name).replaceAll('"', '')}`
      const values = schema['additionalProperties']
      return `Mapping[str, ${isObject(values) ? this.typeOf(values, name) : 'Any'}]`
    }
    return this.scalar(schema, name) ?? 'Any'
  }

  protected override writeClass(name: string, schema: JsonObject): string {
    const text = textOf(schema)
    const fields = fieldsOf(schema).map(([field, one]) => {
      const type = this.typeOf(one, `${name}_${field}`).replaceAll('inputs.', '')
      const description = textOf(one)
      const full = isRequired(schema, field) ? `Required[${type}]` : isNullable(one) ? type : `${type} | None`
      return `    ${pythonName(field)}: ${full}${description === undefined ? '' : `\n${docstring(description, '    ')}`}`
    })
    return [
      `class ${name}(TypedDict, total=False):`,
      ...(text === undefined ? [] : [docstring(text, '    '), '']),
      ...fields,
      '',
    ].join('\n')
  }
}
