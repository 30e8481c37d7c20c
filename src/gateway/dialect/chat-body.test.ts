/** The fast path reads bodies itself, with the same result as JSON.parse, or leaves them to the full path. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseStrictly } from '../../../test/harness/strict-json.ts'
import { readChatBody, writeChatBody, writeMessages } from './chat-body.ts'

const text = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string(),
  fc.constant('a "quoted" \\ text\n'.repeat(9)),
  fc.constant('Grüße, 日本語 😀 '.repeat(700)),
)
const message = fc.record(
  {
    role: fc.constantFrom('system', 'user', 'assistant'),
    content: text,
    name: text,
    extra: fc.dictionary(fc.string(), fc.string()),
  },
  { requiredKeys: ['role', 'content'] },
)

describe('a chat body', () => {
  test('reaches the engine with the same messages, whatever text they contain', () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 5 }), text, fc.boolean(), (messages, user, isFirst) => {
        const value = isFirst ? { messages, model: 'm', user } : { model: 'm', user, messages }
        const bytes = Buffer.from(JSON.stringify(value, null, isFirst ? 1 : 0))
        const body = readChatBody(bytes)
        if (/\0/.test(JSON.stringify(value)) || body === undefined) return
        expect(JSON.parse(body.messages.bytes.toString())).toEqual(messages)
        expect(body.value['user']).toBe(user)
        expect(body.messages.ends).toHaveLength(messages.length)
        const sent = writeChatBody({ model: 'theirs', user }, body.messages)
        const all = Buffer.concat(
          sent.map((piece) => (typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)),
        )
        expect(parseStrictly(all)).toEqual({ model: 'theirs', user, messages })
      }),
      { numRuns: 100 },
    )
  })

  test('is read if well-formed, also with tools, parts and non-ASCII text', () => {
    const bodies = [
      '{"model":"m","messages":[{"role":"user","content":"Hi"}]}',
      '{"messages":[{"role":"user","content":[{"type":"text","text":"é"}]}],"model":"m","tools":[]}',
      '{"messages":[{"role":"assistant","content":null,"tool_calls":[{}]}],"model":"é","käse":{"messages":[1]}}',
      '{"a":"messages","b":["messages"],"model":"m","messages":[{"role":"user","content":"\\ud83d\\ude00"}]}',
    ]
    for (const body of bodies) {
      const read = readChatBody(Buffer.from(body))
      const { messages, ...beside } = JSON.parse(body) as { messages: unknown }
      expect({ ...read?.value, messages: undefined }).toEqual({ ...beside, messages: undefined })
      expect(JSON.parse(read?.messages.bytes.toString() ?? '')).toEqual(messages)
    }
  })

  test.each([
    ['a raw control character', '{"model":"m","messages":[{"role":"user","content":"a\u0001"}]}'],
    ['an escape that is none', String.raw`{"model":"m","messages":[{"role":"user","content":"\q"}]}`],
    ['an invalid literal', '{"model":"m","messages":[{"role":"user","content":nope}]}'],
    ['brackets that do not match', '{"model":"m","messages":[{"role":"user","content":"","x":[}}]}'],
    ['half of a surrogate pair', String.raw`{"model":"m","messages":[{"role":"user","content":"\ud800"}]}`],
    ['the character U+0000', String.raw`{"model":"m","messages":[{"role":"user","content":"\u0000"}]}`],
    ['__proto__', '{"model":"m","messages":[{"role":"user","content":"","__proto__":{}}]}'],
    ['an escaped __proto__', String.raw`{"model":"m","messages":[{"role":"user","content":"","\u005f_proto__":1}]}`],
    ['a name twice in a message', '{"model":"m","messages":[{"role":"user","content":null,"content":"a"}]}'],
    [
      'a name twice, once with escapes',
      String.raw`{"model":"m","messages":[],"m\u0065ssages":[{"role":"user","content":""}]}`,
    ],
    ['a number that no double holds', '{"model":"m","messages":[{"role":"user","content":"","x":1e999}]}'],
    ['a list of stream options', '{"model":"m","messages":[{"role":"user","content":""}],"stream_options":[]}'],
    ['no content', '{"model":"m","messages":[{"role":"user"}]}'],
    ['null from a user', '{"model":"m","messages":[{"role":"user","content":null}]}'],
    [
      'an assistant that says nothing',
      '{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[]}]}',
    ],
    ['a byte order mark', '\ufeff{"model":"m","messages":[{"role":"user","content":""}]}'],
    ['something behind its end', '{"model":"m","messages":[{"role":"user","content":""}]}x'],
    ['a number with a leading zero', '{"model":"m","messages":[{"role":"user","content":""}],"n":01}'],
    ['an end that is missing', '{"model":"m","messages":[{"role":"user","content":"'],
    [
      'nesting without end',
      `{"model":"m","messages":[{"role":"user","content":"","x":${'['.repeat(70)}${']'.repeat(70)}}]}`,
    ],
  ])('with %s is left to the full path', (_what, body) => {
    expect(readChatBody(Buffer.from(body))).toBeUndefined()
  })

  test.each([[[0xff]], [[0xc3]], [[0xed, 0xa0, 0x80]], [[0xc0, 0x80]]])(
    'is left to the full path if not UTF-8: %j',
    (bad) => {
      const [head, tail] = ['{"model":"m","messages":[{"role":"user","content":"', '"}]}']
      expect(readChatBody(Buffer.from(head + tail))).toBeDefined()
      expect(readChatBody(Buffer.concat([Buffer.from(head), Buffer.from(bad), Buffer.from(tail)]))).toBeUndefined()
    },
  )

  test('has its messages serialized by the full path, with the same ends', () => {
    const messages = [
      { role: 'user', content: 'ä"]}' },
      { role: 'assistant', content: '[' },
    ]
    const text = JSON.stringify(messages)
    const written = writeMessages({ messages })
    expect(written.bytes.toString()).toBe(text)
    expect(written.ends).toEqual([Buffer.byteLength(JSON.stringify(messages[0])) + 1, Buffer.byteLength(text) - 1])
  })
})
