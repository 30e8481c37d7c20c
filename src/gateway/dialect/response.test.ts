/** A request of the Responses API as the chat that engines get. */
import { describe, expect, test } from 'vitest'
import { instantOf } from '../../base/instant.ts'
import { fail, ok } from '../../contract/result.ts'
import type { JsonObject } from './chat-body.ts'
import { readResponse, type ResponsePorts } from './response.ts'

const stored: Readonly<Record<string, readonly JsonObject[]>> = {
  resp_1: [
    { type: 'message', role: 'developer', content: 'Note 1' },
    { type: 'message', role: 'user', content: 'Hi' },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hello' }] },
  ],
}

const ports: ResponsePorts = {
  clock: { now: () => instantOf(0) },
  sealReasoning: (_account, text) => text,
  openReasoning: (account, sealed) => (sealed.startsWith(account) ? sealed.slice(account.length) : undefined),
  checkStorage: async () => ok(undefined),
  readConversation: async (_account, id) => (id in stored ? ok(stored[id] ?? []) : fail('response_not_found')),
  findItem: async (_account, id) =>
    id === 'msg_1' ? ok({ role: 'user', content: 'referred' }) : fail('response_not_found'),
  save: async () => true,
}

const caller = { accountId: 'acc', storesResponses: true }
const base = { model: 'm', input: 'Hi' }

async function read(change: object = {}) {
  const result = await readResponse(ports, { ...base, ...change }, caller)
  if (!result.ok) throw new Error(`refused: ${result.message}`)
  const { messages, ...members } = result.value.body
  const sent = JSON.parse(result.value.messages?.bytes.toString() ?? '') as unknown
  expect(sent).toEqual(messages)
  return { ...result.value, sent: sent as JsonObject[], members }
}

async function refusal(change: object): Promise<[string | undefined, string]> {
  const result = await readResponse(ports, { ...base, ...change }, caller)
  return result.ok ? [undefined, ''] : [result.reason, (result.issues?.[0]?.path ?? []).join('.')]
}

const callItem = (id: string, more: object = {}) => ({
  type: 'function_call',
  call_id: id,
  name: 'look',
  arguments: '{}',
  ...more,
})
const output = (id: string, text: unknown = 'seen') => ({ type: 'function_call_output', call_id: id, output: text })
const fn = { type: 'function', name: 'look', parameters: { type: 'object', properties: {} } }

describe('the prompt', () => {
  test('has instructions and what developers say first as one system message', async () => {
    const input = [
      { role: 'developer', content: [{ type: 'input_text', text: 'Be brief.' }] },
      { role: 'system', content: 'Speak English.' },
      { role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      { role: 'developer', content: 'A note.' },
    ]
    const { sent } = await read({ instructions: 'You are a pilot.', input })
    expect(sent).toEqual([
      { role: 'system', content: 'You are a pilot.\n\nBe brief.\n\nSpeak English.' },
      { role: 'user', content: 'Hi' },
      { role: 'system', content: 'A note.' },
    ])
  })

  test('has reasoning, text and calls of one turn as one message, and results after it', async () => {
    const input = [
      { role: 'user', content: 'Hi' },
      { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'hm' }] },
      {
        type: 'message',
        role: 'assistant',
        content: [
          { type: 'output_text', text: 'I ' },
          { type: 'refusal', refusal: 'look.' },
        ],
      },
      callItem('a', { arguments: '{"x":1}' }),
      { type: 'custom_tool_call', call_id: 'b', name: 'patch', input: '*** "Begin"' },
      callItem('c', { namespace: 'crm', arguments: ' ' }),
      output('a'),
      { type: 'custom_tool_call_output', call_id: 'b', output: 'done' },
      output('c', [
        { type: 'input_text', text: 'one' },
        { type: 'input_image', image_url: 'data:x' },
        { type: 'input_text', text: 'two' },
      ]),
      { role: 'assistant', content: 'There.' },
    ]
    const called = (id: string, name: string, json: string) => ({
      id,
      type: 'function',
      function: { name, arguments: json },
    })
    expect((await read({ input })).sent).toEqual([
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning_content: 'hm',
        tool_calls: [
          called('a', 'look', '{"x":1}'),
          called('b', 'patch', JSON.stringify({ input: '*** "Begin"' })),
          called('c', 'crm__look', '{}'),
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: 'seen' },
      { role: 'tool', tool_call_id: 'b', content: 'done' },
      { role: 'tool', tool_call_id: 'c', content: 'one\n\ntwo' },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:x' } }] },
      { role: 'assistant', content: 'There.' },
    ])
  })

  test('continues a stored response, without its instructions, and takes referred items', async () => {
    const { sent } = await read({
      instructions: 'New.',
      previous_response_id: 'resp_1',
      input: [{ type: 'item_reference', id: 'msg_1' }],
    })
    expect(sent).toEqual([
      { role: 'system', content: 'New.\n\nNote 1' },
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'referred' },
    ])
    expect(await refusal({ previous_response_id: 'resp_2' })).toEqual(['response_not_found', ''])
    expect(await refusal({ input: [{ type: 'item_reference', id: 'msg_2' }] })).toEqual(['response_not_found', ''])
  })

  test('P12: has sealed reasoning of its account only', async () => {
    const item = (sealed: string) => ({ type: 'reasoning', summary: [], encrypted_content: sealed })
    const input = (sealed: string) => [{ role: 'user', content: 'Hi' }, item(sealed), callItem('a'), output('a')]
    expect((await read({ input: input('acchm') })).sent[1]).toMatchObject({ reasoning_content: 'hm' })
    expect(await refusal({ input: input('otherhm') })).toEqual(['bad_sealed_reasoning', 'input.1.encrypted_content'])
  })

  test.each([
    [
      {
        input: [
          { role: 'user', content: 'Hi' },
          { type: 'web_search_call', id: 'ws' },
        ],
      },
      'not_supported',
      'input.1.type',
    ],
    [
      { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] },
      'not_supported',
      'input.0.content.0.type',
    ],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] },
      'not_supported',
      'input.0.content.0.image_url',
    ],
    [{ input: [{ role: 'user', content: [{ type: 'input_text' }] }] }, 'invalid_value', 'input.0.content.0.text'],
    [
      { input: [{ role: 'assistant', content: [{ type: 'refusal', refusal: 7 }] }] },
      'invalid_value',
      'input.0.content.0.refusal',
    ],
    [{ input: [output('nobody')] }, 'invalid_value', 'input.0.call_id'],
    [{ input: [] }, 'invalid_value', 'input'],
    [{ background: true }, 'not_supported', 'background'],
    [{ conversation: 'conv_1' }, 'not_supported', 'conversation'],
    [{ prompt: { id: 'pmpt_1' } }, 'not_supported', 'prompt'],
    [{ truncation: 'auto' }, 'not_supported', 'truncation'],
    [{ text: { format: { type: 'xml' } } }, 'not_supported', 'text.format.type'],
    [{ text: { format: { type: 'json_schema', name: 'x' } } }, 'invalid_value', 'text.format.schema'],
    [{ tools: [fn, fn] }, 'invalid_value', 'tools.1.name'],
    [{ tools: [fn], tool_choice: 'any' }, 'invalid_value', 'tool_choice'],
    [{ tools: [{ type: 'web_search' }], tool_choice: { type: 'web_search' } }, 'invalid_value', 'tool_choice'],
    [{ tools: [{ type: 'web_search' }], tool_choice: 'required' }, 'invalid_value', 'tool_choice'],
    [{ tools: [fn], tool_choice: { type: 'function', name: 'other' } }, 'invalid_value', 'tool_choice'],
  ])('P4: refuses by name %j', async (change, reason, path) => {
    expect(await refusal(change)).toEqual([reason, path])
  })
})

describe('tools', () => {
  test('P11: 30 tools, 5 of them run by other servers: the engine gets 25, and the 5 are named', async () => {
    const servers = ['web_search', 'file_search', 'code_interpreter', 'mcp', 'local_shell']
    const functions = Array.from({ length: 20 }, (_, i) => ({ ...fn, name: `look_${i}`, strict: true }))
    const custom = { type: 'custom', name: 'patch', description: 'Edits files.', format: { type: 'text' } }
    const inner = Array.from({ length: 4 }, (_, i) => ({ ...fn, name: `find_${i}` }))
    const namespace = { type: 'namespace', name: 'crm', description: 'Customers', tools: inner }
    const tools = [...servers.map((type) => ({ type })), ...functions, custom, namespace]
    const { members, ignored } = await read({ tools, parallel_tool_calls: false, tool_choice: 'auto' })
    expect(ignored).toEqual(servers)
    const names = (members['tools'] as Array<{ function: { name: string } }>).map((one) => one.function.name)
    expect(names).toEqual([...functions.map(({ name }) => name), 'patch', ...inner.map(({ name }) => `crm__${name}`)])
    expect(members).toMatchObject({ parallel_tool_calls: false, tool_choice: 'auto' })
    expect((members['tools'] as unknown[])[20]).toEqual({
      type: 'function',
      function: {
        name: 'patch',
        description: 'Edits files.',
        parameters: {
          type: 'object',
          properties: { input: { type: 'string' } },
          required: ['input'],
          additionalProperties: false,
        },
      },
    })
  })

  test('a grammar goes into the description, and is named', async () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: "a"' }
    const { members, ignored } = await read({ tools: [{ type: 'custom', name: 'patch', format }] })
    expect(ignored).toEqual(['grammar'])
    expect(JSON.stringify(members['tools'])).toContain('This input follows this lark grammar'.slice(5, 20))
  })

  test('a choice names a function by the name that the engine knows', async () => {
    const tools = [fn, { type: 'namespace', name: 'crm', tools: [fn, { type: 'custom', name: 'x'.repeat(80) }] }]
    const choose = async (choice: object) => (await read({ tools, tool_choice: choice })).members
    expect(await choose({ type: 'function', name: 'look' })).toMatchObject({
      tool_choice: { type: 'function', function: { name: 'look' } },
    })
    const allowed = await choose({
      type: 'allowed_tools',
      mode: 'required',
      tools: [{ type: 'function', name: 'look' }],
    })
    expect(allowed).toMatchObject({ tool_choice: 'required', tools: [{ function: { name: 'look' } }] })
    expect(allowed['tools']).toHaveLength(1)
    const names = (
      (await choose({ type: 'function', name: 'look' }))['tools'] as Array<{ function: { name: string } }>
    ).map((one) => one.function.name)
    expect(names[2]).toMatch(/^crm__x{50}_[0-9a-f]{8}$/)
  })
})

describe('parameters', () => {
  test('become those of a chat', async () => {
    const schema = { type: 'object', properties: {} }
    const { members, hints, session, ignored } = await read({
      max_output_tokens: 100,
      temperature: 0.5,
      top_p: 0.9,
      top_logprobs: 2,
      include: ['message.output_text.logprobs', 'reasoning.encrypted_content', 'file_search_call.results'],
      stream: true,
      reasoning: { effort: 'xhigh', summary: 'auto' },
      text: { format: { type: 'json_schema', name: 'x', schema, strict: true }, verbosity: 'low' },
      prompt_cache_key: 'ada',
      metadata: { a: 'b' },
      service_tier: 'auto',
      stream_options: { include_obfuscation: false },
      field_of_next_year: 1,
      user: null,
    })
    expect(members).toEqual({
      model: 'm',
      max_tokens: 100,
      temperature: 0.5,
      top_p: 0.9,
      logprobs: true,
      top_logprobs: 2,
      stream: true,
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema, strict: true } },
    })
    expect(hints).toEqual({ chat_template_kwargs: { enable_thinking: true }, reasoning_effort: 'high' })
    expect((await read({ reasoning: { effort: 'none' } })).hints).toEqual({
      chat_template_kwargs: { enable_thinking: false },
    })
    expect((await read()).hints).toEqual({})
    expect(session).toMatch(/^[\w-]{43}$/)
    expect(ignored).toEqual([
      'service_tier',
      'stream_options',
      'field_of_next_year',
      'reasoning.summary',
      'text.verbosity',
      'file_search_call.results',
    ])
  })
})
