/** What is recognized as a plain chat must be accepted by the schema. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inferenceEndpoints } from '../../contract/inference.ts'
import { isPlainChat } from './plain-chat.ts'

const { body: schema } = inferenceEndpoints.createChatCompletion
const anything = fc.oneof(fc.constantFrom(null, -1, 0.5, 3, 2 ** 53, '', 'user', true, [], {}), fc.jsonValue())
const mostly = (usual: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 9, arbitrary: usual }, { weight: 1, arbitrary: anything })
const message = fc
  .record({
    role: mostly(fc.constantFrom('user', 'assistant', 'system', 'tool')),
    content: mostly(fc.string()),
  })
  .chain((plain) => fc.oneof({ weight: 9, arbitrary: fc.constant(plain) }, fc.constant({ ...plain, name: 'n' })))
const body = fc.record(
  {
    model: mostly(fc.constantFrom('m', 'a model', 'x'.repeat(200), 'x'.repeat(201))),
    messages: mostly(fc.array(message, { minLength: 1, maxLength: 2 })),
    stream: mostly(fc.boolean()),
    max_tokens: mostly(fc.integer({ min: 0, max: 99 })),
    temperature: mostly(fc.constantFrom(0, 0.7, 2, 2.1)),
    top_p: mostly(fc.constantFrom(0, 0.3, 1, 1.1)),
  },
  { requiredKeys: ['model', 'messages'] },
)

test('the schema accepts whatever is recognized as a plain chat', () => {
  let recognized = 0
  fc.assert(
    fc.property(fc.oneof({ weight: 20, arbitrary: body }, anything), (value) => {
      if (!isPlainChat(value)) return
      recognized += 1
      expect(schema?.safeParse(value).success, JSON.stringify(value)).toBe(true)
    }),
    { numRuns: 3_000 },
  )
  expect(recognized).toBeGreaterThan(50)
})

test.each([
  ['messages and a model', { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }],
  [
    'the usual options',
    { model: 'm', messages: [{ role: 'user', content: '' }], max_tokens: 9, temperature: 2, top_p: 0, stream: true },
  ],
])('recognizes %s', (_, value) => {
  expect(isPlainChat(value)).toBe(true)
})
