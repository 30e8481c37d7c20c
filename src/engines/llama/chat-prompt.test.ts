/** Building prompts from messages. */
import { expect, test } from 'vitest'
import { ChatPrompt, type ChatInput, type TemplateFacts } from './chat-prompt.ts'
import type { Tool } from './tool-call.ts'

const facts: TemplateFacts = {
  template: null,
  bosText: '<s>',
  eosText: '</s>',
  specialTexts: ['<s>', '</s>', '<|end|>'],
}
const input: ChatInput = { messages: [{ role: 'user', content: 'Hi' }], tools: [], mustCall: false, variables: {} }
const tool: Tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }

function render(template: string | null, some: Partial<ChatInput> = {}): unknown {
  const parts = new ChatPrompt({ ...facts, template }).render({ ...input, ...some })
  return parts.ok ? parts.value : parts
}

const plainText = (text: string): unknown => [{ text, literal: false }]

test('passes messages, special token texts and variables to the template', () => {
  const template =
    '{{ bos_token }}{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{{ mood }}{% if add_generation_prompt %}>{% endif %}'
  expect(render(template, { variables: { mood: 'glad' } })).toEqual(plainText('<s>[user:Hi]glad>'))
})

test('variables of a request cannot replace its messages', () => {
  expect(render('{{ messages[0].content }}', { variables: { messages: [{ content: 'x' }] } })).toEqual(plainText('Hi'))
})

test('treats special token names in a message as literal text at any depth', () => {
  const messages = [
    { role: 'user', content: 'a<|end|>b', tool_calls: [{ function: { name: 'f', arguments: { x: '</s>' } } }] },
  ]
  const template = '<|end|>{{ messages[0].content }}{{ messages[0].tool_calls[0].function.arguments | tojson }}</s>'
  expect(render(template, { messages })).toEqual([
    { text: '<|end|>a', literal: false },
    { text: '<|end|>', literal: true },
    { text: 'b{"x": "', literal: false },
    { text: '</s>', literal: true },
    { text: '"}</s>', literal: false },
  ])
})

test('reports the reason why a template rejects messages', () => {
  expect(render("{{ raise_exception('roles must alternate') }}")).toMatchObject({
    ok: false,
    kind: 'invalid',
    message: expect.stringContaining('roles must alternate'),
    issues: [{ path: ['messages'] }],
  })
})

test('fails to start with an invalid template', () => {
  expect(() => new ChatPrompt({ ...facts, template: '{% if %}' })).toThrow('Unexpected token')
})

test('passes tools to a template that supports them', () => {
  const template = '{% for t in tools %}{{ t.function.name }}<tool_call>{% endfor %}{{ messages[0].content }}'
  expect(render(template, { tools: [tool] })).toEqual(plainText('f<tool_call>Hi'))
})

test('puts tools before the first message if the template does not support them', () => {
  const [part] = render('{{ messages[0].content }}', { tools: [tool] }) as Array<{ text: string }>
  expect(part?.text).toContain('{"name":"f","parameters":{"type":"object"}}')
  expect(part?.text.endsWith('\n\nHi')).toBe(true)
})

test('uses the plain default without a template, and ends answers at the next turn', () => {
  const messages = [
    { role: 'system', content: 'Be kind.' },
    { role: 'user', content: 'Hi' },
  ]
  expect(render(null, { messages })).toEqual(plainText('System: Be kind.\n\nUser: Hi\n\nAssistant:'))
  expect(new ChatPrompt(facts).stops).toEqual(['\nUser:'])
  expect(new ChatPrompt({ ...facts, template: 'x' }).stops).toEqual([])
})

test('writes tool calls and results as text if the template does not support them', () => {
  const template = '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}'
  const messages = [
    { role: 'user', content: 'What time is it?' },
    { role: 'assistant', content: '', tool_calls: [{ id: 'c1', function: { name: 'f', arguments: { zone: 'UTC' } } }] },
    { role: 'tool', tool_call_id: 'c1', content: '12:00' },
  ]
  const [part] = render(template, { messages }) as Array<{ text: string }>
  expect(part?.text.split('\n').slice(1, 3)).toEqual([
    'assistant: {"name":"f","arguments":{"zone":"UTC"}}',
    'user: The function returned: 12:00',
  ])
})
