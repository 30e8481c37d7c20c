/** Grammars of schemas, matched against texts by llama.cpp itself. */
import { getLlama, type Llama } from 'node-llama-cpp'
import { beforeAll, describe, expect, test } from 'vitest'
import { grammarOfAnyObject, grammarOfSchema } from './json-grammar.ts'

let llama: Llama
beforeAll(async () => {
  llama = await getLlama({ build: 'never', skipDownload: true, gpu: false, maxThreads: 1 })
})

async function accepts(grammar: string, text: string): Promise<boolean> {
  const compiled = await llama.createGrammar({ grammar })
  // Not public, but the only way to match without a model.
  const testText = Reflect.get(compiled, '_testText') as (text: string) => boolean
  return testText.call(compiled, text)
}

function grammarOf(schema: unknown): string {
  const grammar = grammarOfSchema(schema, 'response_format')
  if (!grammar.ok) throw new Error(grammar.message)
  return grammar.value
}

const person = {
  type: 'object',
  title: 'Person',
  properties: { name: { type: 'string' }, age: { type: 'integer', minimum: 0 }, tags: { items: { enum: ['a', 'b'] } } },
  required: ['age'],
  additionalProperties: false,
}
const tree = {
  $ref: '#/$defs/node',
  $defs: {
    node: {
      type: 'object',
      properties: { next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
      required: ['next'],
    },
  },
}
const shape = {
  oneOf: [
    { type: 'object', properties: { kind: { const: 'dot' } }, required: ['kind'] },
    { type: 'object', properties: { kind: { const: 'disc' }, r: { type: 'number' } }, required: ['kind', 'r'] },
  ],
}

describe('accepts only texts that match the schema', () => {
  test.each<[string, unknown, string[], string[]]>([
    ['a string', { type: 'string' }, ['""', '"é\\n\\u00e9"'], ['1', '"', '"a\n"', '"\\x"']],
    ['lengths', { type: 'string', minLength: 2, maxLength: 3 }, ['"ab"', '"é\\n😀"'], ['"a"', '"abcd"']],
    ['a number', { type: 'number' }, ['0', '-1.5e-7', '12'], ['01', '+1', '.5', '1.', 'NaN', '"1"']],
    ['an integer', { type: 'integer' }, ['0', '-12'], ['1.0', '-', '012']],
    ['a positive number', { type: 'number', minimum: 0 }, ['0.5'], ['-0.5']],
    ['a range', { type: 'integer', minimum: 9, exclusiveMaximum: 12 }, ['9', '10', '11'], ['8', '12', '1', '100']],
    ['a boolean or null', { type: ['boolean', 'null'] }, ['true', 'false', 'null'], ['"true"', '0']],
    ['nullable', { type: 'boolean', nullable: true }, ['null', 'true'], ['0']],
    ['an enum', { type: 'string', enum: ['a"b', 'é', 1] }, ['"a\\"b"', '"é"'], ['1', '"a"']],
    ['a constant', { const: { a: [1, null] } }, ['{"a":[1,null]}'], ['{"a":[1]}']],
    [
      'a list',
      { type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 3 },
      ['[1]', '[1, 2,3]'],
      ['[]', '[1,2,3,4]', '[1,]', '["a"]'],
    ],
    ['an empty list', { type: 'array', maxItems: 0 }, ['[]', '[ ]'], ['[1]']],
    [
      'a tuple',
      { type: 'array', prefixItems: [{ type: 'integer' }, { type: 'string' }], items: false },
      ['[1, "a"]'],
      ['[1]', '["a", 1]'],
    ],
    [
      'an object',
      person,
      ['{"age":3}', '{"name":"x", "age": 3}', '{"name":"x","age":3,"tags":["a","b"]}', '{"age":3,"tags":[]}'],
      ['{}', '{"name":"x"}', '{"age":-1}', '{"age":3,"other":1}', '{"age":3,}', '{,"age":3}', '{"age":3,"tags":["c"]}'],
    ],
    [
      'an object of optional properties',
      { properties: { a: { type: 'null' }, b: { type: 'null' } } },
      ['{}', '{"a":null}', '{"b":null}', '{"a":null,"b":null}'],
      ['{"b":null,"a":null}', '{"a":null "b":null}', '[]'],
    ],
    ['a map', { type: 'object', additionalProperties: { type: 'integer' } }, ['{}', '{"x":1,"y":2}'], ['{"x":"1"}']],
    ['an empty object', { type: 'object', additionalProperties: false }, ['{}', '{ }'], ['{"a":1}']],
    ['a required name without a schema', { type: 'object', required: ['x'] }, ['{"x":[1]}'], ['{}']],
    ['itself', tree, ['{"next":null}', '{"next":{"next":{"next":null}}}'], ['{"next":{}}']],
    ['one of several', shape, ['{"kind":"dot"}', '{"kind":"disc","r":2}'], ['{"kind":"disc"}', '{"kind":"square"}']],
    ['a date', { type: 'string', format: 'date' }, ['"2026-02-28"'], ['"2026-13-01"', '"x"']],
    [
      'an instant',
      { type: 'string', format: 'date-time' },
      ['"2026-02-28T12:00:00.5Z"', '"2026-02-28T12:00:00+01:00"'],
      ['"2026-02-28"'],
    ],
    ['anything', {}, ['1', '"a"', '{"a":[true,{}]}', '[]', 'null'], ['', 'x', '{a:1}']],
    ['ignores keywords of other types', { type: 'integer', pattern: 'x', minLength: 3 }, ['1'], ['"abc"']],
  ])('%s', async (_, schema, matching, others) => {
    const grammar = grammarOf(schema)
    for (const text of matching) expect([text, await accepts(grammar, text)]).toEqual([text, true])
    for (const text of others) expect([text, await accepts(grammar, text)]).toEqual([text, false])
  })

  test('any object', async () => {
    expect(await accepts(grammarOfAnyObject(), '{ "a": {"b": [1, "x", null]},\n  "c": -1.5e3 }')).toBe(true)
    for (const text of ['[]', '1', '{"a"}', '{"a":1', "{'a':1}"])
      expect(await accepts(grammarOfAnyObject(), text)).toBe(false)
  })
})

const node = { $ref: '#/$defs/node' }
const leafOrNode = {
  ...node,
  $defs: {
    node: {
      anyOf: [
        { type: 'object', properties: { leaf: { type: 'integer' } }, required: ['leaf'] },
        { type: 'object', properties: { left: node, right: node }, required: ['left', 'right'] },
      ],
    },
  },
}
const alike = [
  { type: 'array', items: node },
  { type: 'array', items: node, maxItems: 5 },
]
const doubling = (depth: number): unknown =>
  depth === 0
    ? { type: 'null' }
    : { anyOf: [1, 2].map((maxItems) => ({ type: 'array', items: doubling(depth - 1), maxItems })) }

describe('an ambiguous schema', () => {
  test.each<[string, unknown]>([
    ['if it is recursive', { ...node, $defs: { node: { anyOf: alike } } }],
    ['if it is deep', doubling(9)],
  ])('is rejected %s', (_, schema) => {
    expect(grammarOfSchema(schema, 'x')).toMatchObject({ ok: false, reason: 'unsupported_schema' })
  })

  test('is accepted if its alternatives differ at once or it is small', async () => {
    const grammar = grammarOf(leafOrNode)
    expect(await accepts(grammar, '{"left":{"leaf":1},"right":{"left":{"leaf":2},"right":{"leaf":3}}}')).toBe(true)
    expect(await accepts(grammarOf(doubling(3)), '[[[null,null],[]]]')).toBe(true)
  })
})

const nested = (depth: number): unknown => (depth === 0 ? {} : { type: 'array', items: nested(depth - 1) })

describe('names the path of a keyword that a grammar cannot express', () => {
  test.each<[unknown, string]>([
    [{ type: 'object', properties: { a: { type: 'string', pattern: '^x' } } }, 'properties.a.pattern'],
    [{ type: 'string', format: 'email' }, 'format'],
    [{ type: 'string', maxLength: 100_000 }, 'maxLength'],
    [{ type: 'string', minLength: 5, maxLength: 4 }, 'maxLength'],
    [{ type: 'number', maximum: 3 }, 'maximum'],
    [{ type: 'integer', minimum: 0, maximum: 1_000_000 }, 'minimum'],
    [{ type: 'integer', multipleOf: 2 }, 'multipleOf'],
    [{ type: 'array', uniqueItems: true }, 'uniqueItems'],
    [{ type: 'object', minProperties: 1 }, 'minProperties'],
    [{ not: { type: 'string' } }, 'not'],
    [{ allOf: [{ type: 'string' }, { minLength: 1 }] }, 'allOf'],
    [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, 'oneOf'],
    [{ anyOf: [{ type: 'integer' }], type: 'string' }, 'type'],
    [{ enum: ['a'], minLength: 3 }, 'minLength'],
    [{ $ref: 'https://example.com/schema' }, '$ref'],
    [{ $ref: '#/$defs/nothing' }, '$ref'],
    [{ type: 'date' }, 'type'],
    [{ type: 'object', required: ['a'], additionalProperties: false }, 'required'],
    [{ type: 'array', items: 'integer' }, 'items'],
    [false, 'root'],
    [undefined, 'root'],
  ])('%j', (schema, place) => {
    expect(grammarOfSchema(schema, 'response_format')).toMatchObject({
      ok: false,
      kind: 'invalid',
      reason: 'unsupported_schema',
      message: expect.stringContaining(`The schema's ${place} `),
      issues: [{ path: ['response_format'] }],
    })
  })

  test('rejects schemas that are too deep or too large', () => {
    expect(grammarOfSchema(nested(100), 'x')).toMatchObject({
      ok: false,
      message: expect.stringContaining('levels deep'),
    })
    const wide = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`p${at}`, {}]))
    expect(grammarOfSchema({ properties: wide }, 'x')).toMatchObject({
      ok: false,
      message: expect.stringContaining('too large'),
    })
  })
})
