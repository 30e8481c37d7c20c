/** A request of the Messages API as the chat that engines get. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { messageBody } from '../../contract/message.ts'
import type { JsonObject } from './chat-body.ts'
import { readMessage } from './message.ts'

const base = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] }

function read(change: object = {}) {
  const result = readMessage({ ...base, ...change })
  if (!result.ok) throw new Error(`refused: ${result.message}`)
  const { messages, ...members } = result.value.body
  const sent = JSON.parse(result.value.messages?.bytes.toString() ?? '') as unknown
  expect(sent).toEqual(messages)
  return { ...result.value, sent: sent as JsonObject[], members }
}

function refusal(change: object): [string | undefined, string] {
  const result = readMessage({ ...base, ...change })
  return result.ok ? [undefined, ''] : [result.reason, (result.issues?.[0]?.path ?? []).join('.')]
}

const use = (id: string, input: unknown = {}) => ({ type: 'tool_use', id, name: 'look', input })
const result = (id: string, more: object = { content: 'seen' }) => ({ type: 'tool_result', tool_use_id: id, ...more })

describe('the prompt', () => {
  test('has the system text first, without the header that differs in every request', () => {
    const system = [
      { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1; cch=9f3a1;' },
      { type: 'text', text: 'You are a pilot.', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'Be brief.' },
    ]
    const messages = [
      { role: 'system', content: 'Speak English.' },
      { role: 'user', content: 'Hi' },
    ]
    const { sent, ignored } = read({ system, messages })
    expect(sent).toEqual([
      { role: 'system', content: 'You are a pilot.\n\nBe brief.\n\nSpeak English.' },
      { role: 'user', content: 'Hi' },
    ])
    expect(ignored).toEqual(['cache_control'])
  })

  test('has results right after their calls, then the notes and texts of the turn', () => {
    const messages = [
      { role: 'user', content: [{ type: 'text', text: 'Look' }] },
      { role: 'system', content: 'A note.' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Two places', signature: 'of any server' },
          { type: 'redacted_thinking', data: 'x' },
          { type: 'text', text: 'I look.' },
          use('toolu_01', { at: 'sea' }),
          use('call-of_another:server/2'),
        ],
      },
      { role: 'system', content: [{ type: 'text', text: 'Hurry.' }] },
      {
        role: 'user',
        content: [
          result('toolu_01', { is_error: true, content: 'no sea' }),
          result('call-of_another:server/2', {
            content: [
              { type: 'text', text: 'a ship' },
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
            ],
          }),
          { type: 'text', text: 'And?' },
        ],
      },
    ]
    const { sent, ignored } = read({ messages })
    expect(sent).toEqual([
      { role: 'user', content: 'Look\n\nA note.' },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning_content: 'Two places',
        tool_calls: [
          { id: 'toolu_01', type: 'function', function: { name: 'look', arguments: '{"at":"sea"}' } },
          { id: 'call-of_another:server/2', type: 'function', function: { name: 'look', arguments: '{}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'toolu_01', content: 'Error: no sea' },
      { role: 'tool', tool_call_id: 'call-of_another:server/2', content: 'a ship' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hurry.' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
          { type: 'text', text: 'And?' },
        ],
      },
    ])
    expect(ignored).toEqual(['redacted_thinking'])
  })

  test('has the text of documents, and refuses by name what is no text', () => {
    const document = (source: object) => ({
      messages: [{ role: 'user', content: [{ type: 'document', title: 'Log', source }] }],
    })
    expect(read(document({ type: 'text', media_type: 'text/plain', data: 'Day 1' })).sent).toEqual([
      { role: 'user', content: 'Log\n\nDay 1' },
    ])
    const pdf = { type: 'base64', media_type: 'application/pdf', data: 'AAAA' }
    expect(refusal(document(pdf))).toEqual(['not_supported', 'messages.0.content.0.source'])
    expect(refusal(document({ type: 'text' }))).toEqual(['invalid_value', 'messages.0.content.0.source.data'])
    expect(refusal({ messages: [{ role: 'user', content: [{ type: 'video' }] }] })).toEqual([
      'not_supported',
      'messages.0.content.0.type',
    ])
    expect(refusal({ messages: [{ role: 'user', content: [result('none')] }] })).toEqual([
      'invalid_value',
      'messages.0.content.0.tool_use_id',
    ])
    expect(refusal({ messages: [...base.messages, { role: 'assistant', content: 'Sure, ' }] })[0]).toBe('not_supported')
  })

  test('P17: each turn of an agent that appends a system note extends the prompt before, byte by byte', () => {
    const turn = fc.record({
      text: fc.string({ minLength: 1, maxLength: 20 }),
      note: fc.string({ minLength: 1, maxLength: 20 }),
      answer: fc.string({ minLength: 1, maxLength: 20 }),
      calls: fc.nat({ max: 2 }),
      isNoteFirst: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(turn, { minLength: 2, maxLength: 10 }), (turns) => {
        const messages: object[] = []
        let [before, calls] = ['', 0]
        for (const [at, { text, note, answer, calls: next, isNoteFirst }] of turns.entries()) {
          const results = Array.from({ length: calls }, (_, n) => result(`t${at - 1}.${n}`))
          const question = { role: 'user', content: [...results, { type: 'text', text }] }
          const noteMessage = { role: 'system', content: note }
          messages.push(...(isNoteFirst && at > 0 ? [noteMessage, question] : [question, noteMessage]))
          const now = JSON.stringify(read({ messages: [...messages] }).sent).slice(0, -1)
          expect(now.startsWith(before)).toBe(true)
          before = now
          calls = next
          const uses = Array.from({ length: calls }, (_, n) => use(`t${at}.${n}`))
          messages.push({ role: 'assistant', content: [{ type: 'text', text: answer }, ...uses] })
        }
      }),
      { numRuns: 50 },
    )
  })
})

describe('the parameters', () => {
  const tool = { name: 'look', description: 'Looks', input_schema: { type: 'object', properties: {} } }
  const chatTool = {
    type: 'function',
    function: { name: 'look', description: 'Looks', parameters: { type: 'object', properties: {} } },
  }

  test('P18: unknown fields and tools of a vendor are ignored by name', () => {
    const { members, ignored } = read({
      tools: [
        { ...tool, type: 'custom', eager_input_streaming: true, cache_control: { type: 'ephemeral' } },
        { type: 'web_search_20260318', name: 'web_search', max_uses: 5 },
        { type: 'bash_20250124', name: 'bash' },
      ],
      context_management: { edits: [] },
      service_tier: 'auto',
      speed: 'fast',
      mcp_servers: [],
      field_of_next_year: 1,
      container: null,
    })
    expect(members).toEqual({ model: 'm', max_tokens: 100, tools: [chatTool] })
    expect(new Set(ignored)).toEqual(
      new Set([
        'context_management',
        'service_tier',
        'speed',
        'mcp_servers',
        'field_of_next_year',
        'web_search_20260318',
        'bash_20250124',
        'cache_control',
      ]),
    )
  })

  test('P18: no field and no tool that a vendor may invent is refused', () => {
    const field = fc.string({ minLength: 1, maxLength: 20 }).map((name) => `new_${name}`)
    const value = fc.jsonValue({ maxDepth: 2 }).filter((one) => one !== null)
    const fields = fc.dictionary(field, value, { maxKeys: 4 })
    const type = fc.nat({ max: 99_999_999 }).map((day) => `tool_${day}`)
    const tools = fc.array(fc.tuple(fields, type, fc.option(fc.string(), { nil: undefined })), { maxLength: 4 })
    fc.assert(
      fc.property(fields, tools, (invented, others) => {
        const vendors = others.map(([more, tag, name]) => ({
          ...more,
          type: tag,
          ...(name === undefined ? {} : { name }),
        }))
        const change = { ...invented, tools: [{ ...tool, ...invented }, ...vendors] }
        expect(messageBody.safeParse({ ...base, ...change }).success).toBe(true)
        const { members, ignored } = read(change)
        expect(members).toEqual({ model: 'm', max_tokens: 100, tools: [chatTool] })
        expect(new Set(ignored)).toEqual(new Set([...Object.keys(invented), ...others.map(([, tag]) => tag)]))
      }),
      { numRuns: 200 },
    )
  })

  test.each([
    [{ type: 'auto' }, { tool_choice: 'auto' }],
    [{ type: 'any' }, { tool_choice: 'required' }],
    [{ type: 'none' }, { tool_choice: 'none' }],
    [{ type: 'tool', name: 'look' }, { tool_choice: { type: 'function', function: { name: 'look' } } }],
    [
      { type: 'auto', disable_parallel_tool_use: true },
      { tool_choice: 'auto', parallel_tool_calls: false },
    ],
  ])('tool_choice %j is %j', (choice, expected) => {
    expect(read({ tools: [tool], tool_choice: choice }).members).toEqual({
      model: 'm',
      max_tokens: 100,
      tools: [chatTool],
      ...expected,
    })
  })

  test('P4: a call that no tool can answer is refused by name', () => {
    const server = { type: 'web_search_20260318', name: 'web_search' }
    const choice = { type: 'tool', name: 'web_search' }
    expect(refusal({ tools: [tool, server], tool_choice: choice })).toEqual(['invalid_value', 'tool_choice.name'])
    expect(refusal({ tools: [server], tool_choice: { type: 'any' } })).toEqual(['invalid_value', 'tool_choice'])
    expect(read({ tools: [server] }).members).toEqual({ model: 'm', max_tokens: 100 })
    expect(refusal({ output_config: { format: { type: 'xml' } } })).toEqual(['not_supported', 'output_config.format'])
  })

  test('become those of a chat', () => {
    const schema = { type: 'object', properties: {} }
    const { members, hints, session } = read({
      stop_sequences: ['END'],
      temperature: 0.5,
      top_k: 5,
      top_p: null,
      stream: true,
      thinking: { type: 'adaptive' },
      output_config: { effort: 'max', format: { type: 'json_schema', schema } },
      metadata: { user_id: 'ada' },
    })
    expect(members).toEqual({
      model: 'm',
      max_tokens: 100,
      stop: ['END'],
      temperature: 0.5,
      top_k: 5,
      stream: true,
      response_format: { type: 'json_schema', json_schema: { name: 'output', schema, strict: true } },
    })
    expect(hints).toEqual({ chat_template_kwargs: { enable_thinking: true }, reasoning_effort: 'high' })
    expect(read().hints).toEqual({ chat_template_kwargs: { enable_thinking: false } })
    expect(read({ thinking: { type: 'disabled' } }).hints).toEqual({ chat_template_kwargs: { enable_thinking: false } })
    expect(session).toMatch(/^[\w-]{43}$/)
    expect(read({ metadata: { user_id: 'bob' } }).session).not.toBe(session)
  })

  test('an image takes room by its tokens, not by its bytes', () => {
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'A'.repeat(1_000_000) } }
    expect(read({ messages: [{ role: 'user', content: [image] }] }).promptTokens).toBeLessThan(3_000)
    expect(read({ messages: [{ role: 'user', content: 'A'.repeat(30_000) }] }).promptTokens).toBeGreaterThan(10_000)
  })
})
