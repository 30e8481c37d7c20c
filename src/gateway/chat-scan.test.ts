/** The reader of chat bodies agrees with JSON.parse and the contract wherever it has an opinion. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { api } from '../contract/api.ts'
import { isPlainChat } from './chat-parameter.ts'
import { scanChat } from './chat-scan.ts'

const text = fc.oneof(fc.string({ unit: 'binary' }), fc.string(), fc.constant('a "quoted" \\ text\n'.repeat(9)))
const message = fc.record(
  { role: fc.constantFrom('system', 'user', 'assistant'), content: fc.oneof(text, fc.constant(null)), name: text },
  { requiredKeys: ['role', 'content'] },
)
const parameters = fc.record(
  {
    model: fc.string({ minLength: 1, maxLength: 20 }),
    temperature: fc.oneof(fc.double({ min: -1, max: 3, noNaN: true }), fc.constant(null)),
    top_p: fc.double({ min: -0.5, max: 1.5, noNaN: true }),
    n: fc.oneof(fc.integer({ min: -1, max: 200 }), fc.double({ noNaN: true })),
    max_tokens: fc.oneof(fc.integer({ min: -2, max: 50 }), fc.constant(null), fc.constant('7')),
    stop: fc.oneof(text, fc.array(text, { maxLength: 20 }), fc.constant(3)),
    stream: fc.oneof(fc.boolean(), fc.constant(null), fc.constant('yes')),
    repetition_penalty: fc.double({ min: -1, max: 12, noNaN: true }),
    seed: fc.oneof(fc.integer(), fc.double({ noNaN: true })),
    top_k: fc.integer({ min: -3, max: 5 }),
    user: fc.oneof(text, fc.integer()),
    stream_options: fc.record({ include_usage: fc.oneof(fc.boolean(), fc.constant(1)) }),
  },
  { requiredKeys: ['model'] },
)

describe('a chat body', () => {
  it('is read as JSON.parse reads it, whatever stands in its texts', () => {
    fc.assert(
      fc.property(
        fc.array(message, { minLength: 1, maxLength: 5 }),
        parameters,
        fc.boolean(),
        (messages, rest, first) => {
          const value = first ? { messages, ...rest } : { ...rest, messages }
          const body = Buffer.from(JSON.stringify(value))
          const scan = scanChat(body)
          if (scan === undefined) return
          expect(JSON.parse(body.toString('utf8', scan.messages.start, scan.messages.end))).toEqual(messages)
          expect(scan.head).toEqual({ ...(JSON.parse(body.toString('utf8')) as object), messages: [] })
          expect(JSON.parse(body.toString('utf8', scan.model.start, scan.model.end))).toBe(rest.model)
          expect(scan.messageEnds).toHaveLength(messages.length)
          expect(body[scan.closing]).toBe(0x7d)
        },
      ),
      { numRuns: 500 },
    )
  })

  it('is not read otherwise by any damage: what is still taken is what JSON.parse takes', () => {
    const good = JSON.stringify({
      model: 'm',
      messages: [{ role: 'user', content: 'say "hi" \\ there' }],
      stream: true,
    })
    fc.assert(
      fc.property(fc.nat(good.length - 1), fc.integer({ min: 0x20, max: 0x7e }), (at, byte) => {
        const body = Buffer.from(good)
        body[at] = byte
        const scan = scanChat(body)
        if (scan === undefined) return
        const inMessages = at >= scan.messages.start && at < scan.messages.end
        // Only inside the messages may something be wrong that is left to the engine.
        expect(inMessages ? scan.head : JSON.parse(body.toString('utf8'))).toMatchObject({ ...scan.head, messages: {} })
      }),
      { numRuns: 2_000 },
    )
  })

  it('that is plain by the table is right by the contract', () => {
    fc.assert(
      fc.property(parameters, (rest) => {
        if (!isPlainChat({ ...rest, messages: [] })) return
        const body = { ...rest, messages: [{ role: 'user', content: 'x' }] }
        expect(api.createChatCompletion.body?.safeParse(body).success).toBe(true)
      }),
      { numRuns: 2_000 },
    )
  })

  it.each([
    ['a list', '[]'],
    ['nothing', ''],
    ['no end', '{"model":"m","messages":[{"role":"user","content":"x"}]'],
    ['something behind it', '{"model":"m","messages":[{"role":"user","content":"x"}]} x'],
    ['two models', '{"model":"m","messages":[{"role":"user","content":"x"}],"model":"k"}'],
    ['an escaped key', '{"mod\\u0065l":"m","messages":[{"role":"user","content":"x"}]}'],
    ['no messages', '{"model":"m","messages":[]}'],
    ['another role', '{"model":"m","messages":[{"role":"robot","content":"x"}]}'],
    ['two roles', '{"model":"m","messages":[{"role":"user","content":"x","role":"system"}]}'],
    ['parts', '{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}'],
    ['a number as content', '{"model":"m","messages":[{"role":"user","content":7}]}'],
    ['a text that does not end', '{"model":"m","messages":[{"role":"user","content":"x}]}'],
    ['depth', `{"model":"m","messages":[{"role":"user","content":"x","y":${'['.repeat(40)}${']'.repeat(40)}}]}`],
  ])('with %s goes the careful way', (_what, body) => {
    expect(scanChat(Buffer.from(body))).toBeUndefined()
  })

  it.each(['__proto__', 'constructor', 'toString', 'tools', 'logit_bias'])('with %s goes the careful way', (name) => {
    const head = JSON.parse(`{"model":"m","messages":[],"${name}":{}}`) as Record<string, unknown>
    expect(isPlainChat(head)).toBe(false)
  })
})
