/** Extracting tool calls from model output. */
import { expect, test } from 'vitest'
import { grammarOfCall, readToolSyntax, ToolCallReader, type Tool, type ToolSyntax } from './tool-call.ts'

const tools: Tool[] = ['weather', 'clock'].map((name) => ({ type: 'function', function: { name } }))
const tagged: ToolSyntax = { open: '<tool_call>', close: '</tool_call>', argumentsName: 'arguments' }
const bare: ToolSyntax = { open: '', close: '', argumentsName: 'parameters' }

/** Letter by letter, so that every boundary is tested. */
function read(syntax: ToolSyntax, text: string): { text: string; calls: Array<[number, string, string]> } {
  const reader = new ToolCallReader(syntax, tools)
  const all = [...Array.from(text, (letter) => reader.push(letter)), reader.end()]
  return {
    text: all.map((one) => one.text).join(''),
    calls: all.flatMap((one) => one.calls).map(({ index, function: { name, arguments: args } }) => [index, name, args]),
  }
}

test('extracts calls between marks and keeps the text around them', () => {
  const text =
    'Let me look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Ulm"}}\n</tool_call>\n<tool_call>{"name":"clock"}</tool_call>'
  expect(read(tagged, text)).toEqual({
    text: 'Let me look.\n',
    calls: [
      [0, 'weather', '{"city":"Ulm"}'],
      [1, 'clock', '{}'],
    ],
  })
})

test.each([
  ['a function that was not offered', '<tool_call>{"name":"other","arguments":{}}</tool_call>'],
  ['invalid JSON', '<tool_call>weather()</tool_call>'],
  ['an incomplete call', 'a <tool_call>{"name":"weather"'],
  ['an incomplete mark', 'a <tool_ca'],
  ['another mark', '<tool_calls>'],
])('%s stays unchanged text', (_, text) => {
  expect(read(tagged, text)).toEqual({ text, calls: [] })
})

test('without marks, reads an answer that is the JSON of a call as a call', () => {
  expect(read(bare, ' {"name": "clock", "parameters": {"zone": "UTC"}}')).toEqual({
    text: '',
    calls: [[0, 'clock', '{"zone":"UTC"}']],
  })
})

test.each(['{"name": "nobody"}', '{"a": 1}', 'I have no {"name": "clock"}', '{', ' '])(
  'without marks, %j is text',
  (text) => {
    expect(read(bare, text)).toEqual({ text, calls: [] })
  },
)

test('without marks, emits text that is not JSON at once', () => {
  const reader = new ToolCallReader(bare, tools)
  expect(reader.push('Well')).toEqual({ text: 'Well', calls: [] })
  expect(reader.push(' {')).toEqual({ text: ' {', calls: [] })
})

test('detects the call syntax of a template', () => {
  expect(readToolSyntax('{% if tools %}<tool_call>{% endif %}')).toEqual(tagged)
  expect(readToolSyntax('{% if tools %}{"name": "f", "parameters": {}}{% endif %}')).toEqual(bare)
  expect(readToolSyntax('{% if tools %}[AVAILABLE_TOOLS]{% endif %}[TOOL_CALLS]')).toBeUndefined()
  expect(readToolSyntax('{{ messages }}')).toBeUndefined()
})

test('names the tool whose parameters no grammar can express', () => {
  const parameters = { type: 'object', properties: { a: { type: 'string', pattern: 'x' } } }
  expect(
    grammarOfCall([{ type: 'function', function: { name: 'f', parameters } }], tagged, { orText: false }),
  ).toMatchObject({
    ok: false,
    message: "f: The schema's properties.a.pattern cannot be enforced by this engine.",
    issues: [{ path: ['tools'] }],
  })
})
