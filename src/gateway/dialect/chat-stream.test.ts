/** Streams of engines become streams of ours, however their bytes are cut. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ChatStream, MAX_EVENT_BYTES } from './chat-stream.ts'

const options = {
  id: 'chatcmpl-ours',
  model: 'öur model',
  form: { object: 'chat.completion.chunk', opensWithRole: true },
  created: 7,
  includeUsage: false,
}

interface Chunk {
  id: string
  model: string
  choices: Array<{ delta: { role?: string; content?: string }; finish_reason: string | null }>
  usage?: { completion_tokens: number } | null
}

function chunk(delta: object, finish: string | null = null, more: object = {}): string {
  const choices = [{ index: 0, delta, finish_reason: finish }]
  return `data: ${JSON.stringify({ id: 'up-1', object: 'chat.completion.chunk', created: 1, model: 'their/model', choices, ...more })}\n\n`
}

const usageOf = (output: number) => ({
  prompt_tokens: 9,
  completion_tokens: output,
  total_tokens: 9 + output,
  prompt_tokens_details: { cached_tokens: 4 },
})

function run(stream: ChatStream, bytes: Buffer, cuts: readonly number[] = []): string | undefined {
  const places = [0, ...[...cuts].sort((a, b) => a - b), bytes.length]
  let out = ''
  for (let i = 1; i < places.length; i++) {
    const text = stream.push(bytes.subarray(places[i - 1], places[i]))
    if (text === undefined) return undefined
    out += text
  }
  return out
}

function read(out: string | undefined): Chunk[] {
  return Buffer.from(out ?? '', 'latin1')
    .toString('utf8')
    .split('\n\n')
    .filter((event) => event.startsWith('data: '))
    .map((event) => JSON.parse(event.slice(6)) as Chunk)
}

const sentences = ['Zwölf ', 'Boxkämpfer "jagen" ', '{"usage":{"completion_tokens":99}} ', '漢字 "id":"up-1"']
const whole =
  chunk({ role: 'assistant', content: '' }) +
  sentences.map((content, i) => chunk({ content }, null, { usage: usageOf(i + 1) })).join('') +
  chunk({}, 'stop', { usage: usageOf(5) }) +
  `data: ${JSON.stringify({ id: 'up-1', model: 'their/model', choices: [], usage: usageOf(5) })}\n\n` +
  'data: [DONE]\n\n'

describe('a stream', () => {
  it('reads the same however it is cut, under our id and name, without usage', () => {
    const bytes = Buffer.from(whole)
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 40 }), (cuts) => {
        const stream = new ChatStream(options)
        const chunks = read(run(stream, bytes, cuts))
        expect(chunks.map((one) => one.choices[0]?.delta.content ?? '').join('')).toBe(sentences.join(''))
        expect(chunks.every((one) => one.id === options.id && one.model === options.model)).toBe(true)
        expect(chunks.some((one) => one.usage !== undefined)).toBe(false)
        expect(stream.usage).toEqual({ inputTokens: 9, cachedTokens: 4, outputTokens: 5 })
        expect([stream.done, stream.finished]).toEqual([true, true])
      }),
      { numRuns: 300 },
    )
  })

  it('reads the same event by event, where most are alike, as in any other pieces', () => {
    const odd = [
      chunk({ content: 'done' }, 'stop'),
      `data: ${JSON.stringify({
        id: 'up-1',
        model: 'their/model',
        choices: [
          { index: 0, finish_reason: null },
          { index: 1, finish_reason: 'stop' },
        ],
      })}\n\n`,
      chunk({ content: 'x' }, null, { usage: usageOf(3) }),
      chunk({ content: 'x' }, null, { usage: null }),
      chunk({ content: 'x' }).replace('"finish_reason":null', '"finish_reason" : null'),
      chunk({ content: 'x' }).replace('up-1', 'up-2'),
      chunk({ content: 'x' }).replaceAll('\n', '\r\n'),
      ': ping\n\n',
    ]
    const endings = ['', 'data: {"error":{"message":"out of memory"}}\n\n', 'data: [DONE]\n\n']
    const plain = fc.string({ unit: 'grapheme' }).map((content) => chunk({ content }))
    const events = fc.array(fc.oneof({ weight: 5, arbitrary: plain }, fc.constantFrom(...odd)), { maxLength: 12 })
    const outcomeOf = (bytes: Buffer, cuts: readonly number[]): unknown => {
      const stream = new ChatStream(options)
      const out = run(stream, bytes, cuts)
      return { out, events: stream.events, finished: stream.finished, failed: stream.failed, usage: stream.usage }
    }
    fc.assert(
      fc.property(events, fc.constantFrom(...endings), (some, ending) => {
        const all = [chunk({ role: 'assistant', content: '' }), ...some, ending].map((event) => Buffer.from(event))
        let end = 0
        const ends = all.map((event) => (end += event.length))
        const bytes = Buffer.concat(all)
        expect(outcomeOf(bytes, ends)).toEqual(outcomeOf(bytes, []))
        // Pieces of two events never are one that is alike.
        expect(outcomeOf(bytes, ends)).toEqual(
          outcomeOf(
            bytes,
            ends.filter((_, place) => place % 2 === 1),
          ),
        )
      }),
      { numRuns: 500 },
    )
  })

  it('ends with a usage event for a client that asked for it', () => {
    const stream = new ChatStream({ ...options, includeUsage: true })
    const chunks = read(run(stream, Buffer.from(whole)))
    expect(chunks.filter((one) => one.usage !== undefined)).toHaveLength(1)
    expect(chunks.at(-1)?.usage?.completion_tokens).toBe(5)
    expect(stream.end({ inputTokens: 9, cachedTokens: 0, outputTokens: 5 })).toBe('data: [DONE]\n\n')
  })

  it('adds the usage event if the engine sent none', () => {
    const stream = new ChatStream({ ...options, includeUsage: true })
    run(stream, Buffer.from(chunk({ role: 'assistant', content: 'x' }, 'stop') + 'data: [DONE]\n\n'))
    const [last] = read(stream.end({ inputTokens: 9, cachedTokens: 0, outputTokens: 1 }).replace('data: [DONE]', ''))
    expect(last).toMatchObject({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 } })
  })

  it('knows the usage at any moment, for the charge of a cut stream', () => {
    const stream = new ChatStream(options)
    const [first = '', second = '', third = ''] = whole.split(/(?<=\n\n)/)
    run(stream, Buffer.from(first + second + third))
    expect(stream.usage?.outputTokens).toBe(2)
    expect(stream.finished).toBe(false)
  })

  it('counts events if the engine does not count tokens', () => {
    const stream = new ChatStream(options)
    run(
      stream,
      Buffer.from(chunk({ role: 'assistant', content: '' }) + chunk({ content: 'a' }) + chunk({ content: 'b' })),
    )
    expect([stream.usage, stream.events]).toEqual([undefined, 2])
    stream.push(Buffer.from(`: ping\n\n${chunk({}, 'stop')}`))
    expect(stream.events).toBe(2)
  })

  it('adds a missing role event', () => {
    const [first] = read(run(new ChatStream(options), Buffer.from(chunk({ content: 'a' }))))
    expect(first?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
  })

  it('accepts comments and CRLF', () => {
    const stream = new ChatStream(options)
    const chunks = read(run(stream, Buffer.from(`: ping\r\n\r\n${whole.replaceAll('\n', '\r\n')}`)))
    expect(chunks.map((one) => one.choices[0]?.delta.content ?? '').join('')).toBe(sentences.join(''))
  })

  it.each([
    ['garbage', 'hello\n\n'],
    ['half JSON', 'data: {"id":\n\n'],
    ['another object', 'data: {"hello":"x"}\n\n'],
  ])('that is %s is rejected', (_what, text) => {
    expect(new ChatStream(options).push(Buffer.from(text))).toBeUndefined()
  })

  it('does not pass on the engine’s error message', () => {
    const stream = new ChatStream(options)
    const out = run(
      stream,
      Buffer.from(
        `${chunk({ role: 'assistant', content: 'a' })}data: {"error":{"message":"CUDA"}}\n\ndata: [DONE]\n\n`,
      ),
    )
    expect(out).not.toContain('CUDA')
    expect([stream.failed, stream.events]).toEqual(['{"error":{"message":"CUDA"}}', 1])
  })

  it('accepts events without the optional space', () => {
    const stream = new ChatStream(options)
    const chunks = read(run(stream, Buffer.from(whole.replaceAll('data: ', 'data:'))))
    expect(chunks.map((one) => one.choices[0]?.delta.content ?? '').join('')).toBe(sentences.join(''))
    expect(stream.done).toBe(true)
  })

  it('gives up on an event without end', () => {
    const stream = new ChatStream(options)
    let out: string | undefined = ''
    for (let sent = 0; sent <= MAX_EVENT_BYTES && out !== undefined; sent += 65_536)
      out = stream.push(Buffer.alloc(65_536, 'x'))
    expect(out).toBeUndefined()
  })
})
