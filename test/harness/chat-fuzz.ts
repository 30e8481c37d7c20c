/** Bodies of requests for text that are valid, almost valid and invalid; the same seed gives the same bodies. */

export type Random = () => number

/** Numbers in [0, 1): mulberry32. */
export function randomFrom(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

export type ValidBody = (random: Random, model: string) => Json

export function fuzzedBody(random: Random, model: string, makeValid: ValidBody = validChat): Buffer {
  const kind = random()
  const valid = makeValid(random, model)
  if (kind < 0.2) return Buffer.from(JSON.stringify(valid, null, random() < 0.2 ? 1 : 0))
  if (kind < 0.45) return Buffer.from(writtenOddly(random, loosen(random, valid)))
  return mutated(random, Buffer.from(JSON.stringify(valid)))
}

export const below = (random: Random, end: number): number => Math.floor(random() * end)
export const pick = <T>(random: Random, all: readonly T[]): T => all[below(random, all.length)] as T

export const texts = [
  'Hi',
  '',
  'say "hi" \\ there\n',
  'Grüße, 日本語, 😀',
  'x'.repeat(70),
  '\u2028\u007f',
  'null',
  '{"a":[1]}',
]
const roles = ['user', 'system', 'assistant', 'tool', 'developer']

export type Json = Record<string, unknown>

function validChat(random: Random, model: string): Json {
  const body: Json = { model, messages: Array.from({ length: 1 + below(random, 3) }, () => validMessage(random)) }
  const optional: Json = {
    temperature: pick(random, [0, 0.5, 1.5, 2, null]),
    top_p: random(),
    max_tokens: 1 + below(random, 20),
    max_completion_tokens: pick(random, [1, 5_000, null]),
    n: pick(random, [1, 2, null]),
    seed: below(random, 1_000),
    stop: pick(random, ['\n', ['a', 'b'], null]),
    stream: random() < 0.5,
    stream_options: pick(random, [{ include_usage: true }, {}, null, { include_usage: null, other: 1 }]),
    user: pick(random, texts),
    logit_bias: { 7: 1 },
    logprobs: pick(random, [true, false, 2, null]),
    response_format: pick(random, [{ type: 'text' }, null]),
    unknown: pick<unknown>(random, [1, 'Ä', [{ a: [null] }], { b: {} }]),
    käse: 'é',
  }
  for (const name of Object.keys(optional)) if (random() < 0.2) body[name] = optional[name]
  return body
}

function validMessage(random: Random): Json {
  if (random() < 0.1) {
    const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }
    return { role: 'assistant', tool_calls: [call], ...(random() < 0.5 ? { content: null } : {}) }
  }
  const content = random() < 0.1 ? [{ type: 'text', text: pick(random, texts) }] : pick(random, texts)
  return { role: pick(random, roles), content, ...(random() < 0.1 ? { name: 'ada', extra: { deep: [1, [2]] } } : {}) }
}

const oddValues: readonly unknown[] = [
  null, true, -1, 0, 1.5, 3, 1e21, '', '7', 'yes', [], [[]], {}, { type: 'text' }, { include_usage: 1 }, '\ud800', '\0',
] // prettier-ignore

/** Fields of a body and of its messages, each of which may be missing or have the wrong type. */
function loosen(random: Random, body: Json): Json {
  const changed = 1 + below(random, 3)
  for (let n = 0; n < changed; n += 1) {
    const messages = body['messages'] ?? body['input'] ?? body['documents']
    const message = Array.isArray(messages) ? pick(random, messages as unknown[]) : undefined
    const isInside = random() < 0.6 && typeof message === 'object' && message !== null
    const at = isInside ? (message as Json) : body
    const name = pick(random, [
      ...Object.keys(at),
      'content',
      'role',
      'stream_options',
      'n',
      'tools',
      'stop',
      'tool_calls',
    ])
    if (random() < 0.2) delete at[name]
    else at[name] = pick(random, oddValues)
  }
  return body
}

/** The same value with extra spaces, escapes, duplicate keys and other number spellings. */
function writtenOddly(random: Random, value: unknown): string {
  const space = (): string => (random() < 0.05 ? pick(random, [' ', '\n', '\t \r\n']) : '')
  const write = (one: unknown): string => {
    if (Array.isArray(one)) return `[${one.map((entry) => space() + write(entry)).join(',')}${space()}]`
    if (typeof one === 'object' && one !== null) {
      const members = Object.entries(one).map(([name, inside]) => `${text(name)}${space()}:${space()}${write(inside)}`)
      if (members.length > 0 && random() < 0.05) members.push(pick(random, members))
      if (random() < 0.02)
        members.push(pick(random, ['"__proto__":{"a":1}', '"constructor":{"prototype":1}', '"a":1e999']))
      return `{${members.join(`,${space()}`)}}`
    }
    if (typeof one === 'number' && random() < 0.1) return pick(random, [`${one}e0`, `${one}.0`, '-0', '1E400', '0.1e1'])
    return typeof one === 'string' ? text(one) : JSON.stringify(one)
  }
  const text = (one: string): string => {
    if (random() > 0.1) return JSON.stringify(one)
    const escaped = Array.from(one.split(''), (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    return `"${escaped.join('')}"`
  }
  return write(value)
}

const pieces = [
  '"', '\\', '\\q', '\\u12', '\\ud800', '\\udc00', '\\u0000', '{', '}', '[', ']', ',', ':', ' ', '\n', '\t', '\0', '\u0001',
  'null', 'nope', 'tru', '01', '-', '+1', '1e999', '.5', '0x1', 'NaN', '""', '[}', '{]', ',,', '"x":[}', '"content":nope,',
  '"__proto__":{},', '"constructor":{"prototype":{}},', '"stream_options":[],', '"model":"x",', '"content":null,',
  '"role":"user",', '"messages":[],', '/*x*/', '\u00a0', '\ufeff', '[[[[[[[[', '{"a":'.repeat(70),
].map((piece) => Buffer.from(piece)) // prettier-ignore
const badBytes = [[0xff], [0xc3], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0x80]].map(
  (bytes) => Buffer.from(bytes),
)

function mutated(random: Random, body: Buffer): Buffer {
  let bytes = body
  const times = 1 + below(random, 2)
  for (let n = 0; n < times; n += 1) bytes = mutatedOnce(random, bytes)
  return bytes.length === 0 ? Buffer.from(' ') : bytes
}

function mutatedOnce(random: Random, bytes: Buffer): Buffer {
  const [a, b] = [below(random, bytes.length + 1), below(random, bytes.length + 1)]
  const [start, end] = [Math.min(a, b), Math.max(a, b)]
  const near = Math.min(bytes.length, start + 1 + below(random, 4))
  const around = (insert: Buffer, from = start, to = start): Buffer =>
    Buffer.concat([bytes.subarray(0, from), insert, bytes.subarray(to)])
  switch (below(random, 8)) {
    case 0:
      return around(Buffer.alloc(0), start, near)
    case 1:
      return around(Buffer.from([below(random, 256)]), start, near)
    case 2:
      return around(pick(random, badBytes))
    case 3:
      return around(bytes.subarray(start, end), end, end)
    case 4:
      return random() < 0.5 ? bytes.subarray(0, start) : around(pick(random, pieces), bytes.length, bytes.length)
    case 5:
      return around(pick(random, pieces), start, near)
    default:
      return around(pick(random, pieces))
  }
}
