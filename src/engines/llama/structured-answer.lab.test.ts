/** Answers constrained by a grammar: JSON, JSON of a schema, tool calls. The tiny model alone writes gibberish. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startTinyEngine, type TinyEngine } from '../../../test/lab/tiny-engine.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let engine: TinyEngine
beforeAll(async () => {
  engine = await startTinyEngine()
})
afterAll(() => engine.stop())

const seeds = [1, 2, 3, 4, 5]

describe('response_format', () => {
  // The tiny model would write long strings and deep lists, so closing characters are made likelier.
  const logit_bias = Object.fromEntries(Array.from('"}],', (letter) => [letter.codePointAt(0), 4]))

  test('json_object returns an object', async () => {
    for (const seed of seeds) {
      const { choices } = await engine.chat({ seed, logit_bias, response_format: { type: 'json_object' } })
      expect(choices[0]?.finish_reason).toBe('stop')
      expect(
        z.record(z.string(), z.unknown()).safeParse(JSON.parse(choices[0]?.message.content ?? '')).error,
      ).toBeUndefined()
    }
  })

  test('json_schema returns JSON that matches the schema', async () => {
    const shape = z.strictObject({
      name: z.string().max(12),
      age: z.int().min(0),
      size: z.enum(['s', 'm', 'l']),
      tags: z.array(z.boolean()).min(1).max(3),
      where: z.union([z.null(), z.strictObject({ x: z.number(), y: z.number().optional() })]),
    })
    const schema = {
      type: 'object',
      properties: {
        name: { type: 'string', maxLength: 12 },
        age: { type: 'integer', minimum: 0 },
        size: { enum: ['s', 'm', 'l'] },
        tags: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 3 },
        where: {
          anyOf: [
            { type: 'null' },
            { type: 'object', properties: { x: { type: 'number' }, y: { type: 'number' } }, required: ['x'] },
          ],
        },
      },
      required: ['name', 'age', 'size', 'tags', 'where'],
      additionalProperties: false,
    }
    const response_format = { type: 'json_schema', json_schema: { name: 'thing', strict: true, schema } }
    const answers = new Set<string>()
    for (const seed of seeds) {
      const { choices } = await engine.chat({ seed, logit_bias, response_format })
      const content = choices[0]?.message.content ?? ''
      expect(shape.safeParse(JSON.parse(content)).error).toBeUndefined()
      answers.add(content)
    }
    expect(answers.size).toBe(seeds.length)
  })
})

const tools = [
  {
    type: 'function',
    function: {
      name: 'weather',
      description: 'How the weather is',
      parameters: { type: 'object', properties: { city: { enum: ['Ulm', 'Oslo'] } }, required: ['city'] },
    },
  },
  { type: 'function', function: { name: 'clock' } },
]
const noArguments = z.strictObject({})
const weatherArguments = z.strictObject({ city: z.enum(['Ulm', 'Oslo']) })

describe('tools', () => {
  test('tool_choice required returns a tool call with matching arguments', async () => {
    for (const seed of seeds) {
      const { choices } = await engine.chat({ seed, tools, tool_choice: 'required' })
      const { message, finish_reason: reason } = choices[0] ?? {}
      expect([reason, message?.content]).toEqual(['tool_calls', null])
      expect(message?.tool_calls).toHaveLength(1)
      const called = message?.tool_calls?.[0]?.function
      const expected = called?.name === 'weather' ? weatherArguments : noArguments
      expect(expected.safeParse(JSON.parse(called?.arguments ?? '')).error).toBeUndefined()
      expect(['weather', 'clock']).toContain(called?.name)
    }
  })

  test.each(['weather', 'clock'])('calls the named function %s', async (name) => {
    const { choices } = await engine.chat({ tools, tool_choice: { type: 'function', function: { name } } })
    expect(choices[0]?.message.tool_calls?.[0]?.function.name).toBe(name)
  })

  test('a streamed call has its index and the same arguments', async () => {
    const body = { seed: 1, tools, tool_choice: { type: 'function', function: { name: 'weather' } } }
    const [whole, chunks] = [await engine.chat(body), await engine.chatChunks(body)]
    const calls = chunks.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? [])
    expect(calls.map(({ index, function: called }) => [index, called])).toEqual([
      [0, whole.choices[0]?.message.tool_calls?.[0]?.function],
    ])
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('tool_calls')
  })

  test('returns a truncated call as text', async () => {
    const { choices } = await engine.chat({ tools, tool_choice: 'required', max_tokens: 20 })
    expect(choices[0]).toMatchObject({ finish_reason: 'length', message: { content: '<tool_call>\n{"name":' } })
  })

  test('auto passes the tools to the model and allows a text answer', async () => {
    const body = { seed: 1, max_tokens: 10 }
    const [without, withTools] = [await engine.chat(body), await engine.chat({ ...body, tools })]
    expect(withTools.choices[0]?.message.content).toHaveLength(10)
    expect(withTools.usage.prompt_tokens).toBeGreaterThan(without.usage.prompt_tokens + 100)
    const none = await engine.chat({ ...body, tools, tool_choice: 'none' })
    expect(none.usage.prompt_tokens).toBe(without.usage.prompt_tokens)
  })

  test('passes earlier calls and results to the template', async () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'clock', arguments: '{"zone":"UTC"}' } }
    const messages = [
      { role: 'user', content: 'What time is it?' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'text', text: 'noon' }] },
    ]
    const { usage } = await engine.chat({ messages, max_tokens: 1 })
    const prompt = [
      '<|im_start|>user\nWhat time is it?<|im_end|>\n',
      '<|im_start|>assistant\n\n<tool_call>\n{"name": "clock", "arguments": {"zone": "UTC"}}\n</tool_call><|im_end|>\n',
      '<|im_start|>tool\nnoon<|im_end|>\n<|im_start|>assistant\n',
    ].join('')
    // One token per letter and per mark, and one at the beginning.
    expect(usage.prompt_tokens).toBe(prompt.replaceAll(/<\|im_\w+\|>/g, '^').length + 1)
  })
})
