/** Every sampling parameter, on the real engine: each test fails if the parameter is ignored. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTinyEngine, type TinyEngine } from '../../../test/lab/tiny-engine.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let engine: TinyEngine
beforeAll(async () => {
  engine = await startTinyEngine()
})
afterAll(() => engine.stop())

const [EOS, END_OF_TURN] = [257, 260]
/** Makes answers as long as their limit. */
const endless = { [EOS]: -100, [END_OF_TURN]: -100 }

async function say(body: Readonly<Record<string, unknown>>): Promise<string> {
  const answer = await engine.chat({ max_tokens: 60, logit_bias: endless, ...body })
  return answer.choices[0]?.message.content ?? ''
}

const greedy = { temperature: 0 }
const code = (letter: string): number => letter.codePointAt(0) ?? 0

/** The log-probabilities of the first token, by the token's text. */
async function firstToken(body: Readonly<Record<string, unknown>>): Promise<Map<string, number>> {
  const { choices } = await engine.chat({ ...greedy, max_tokens: 1, logprobs: true, top_logprobs: 20, ...body })
  return new Map(choices[0]?.logprobs?.content[0]?.top_logprobs.map(({ token, logprob }) => [token, logprob]))
}

/** The count of the most frequent letter. */
function mostUsed(text: string): number {
  return Math.max(...[...new Set(text)].map((letter) => text.split(letter).length - 1))
}

describe('seed', () => {
  test('gives the same text for the same seed, and another for another', async () => {
    const text = await say({ seed: 7 })
    expect(await say({ seed: 7 })).toBe(text)
    expect(await say({ seed: 8 })).not.toBe(text)
  })

  test('gives different answers without a seed', async () => {
    expect(await say({})).not.toBe(await say({}))
  })

  test('accepts integers of any size and sign', async () => {
    for (const seed of [-1, 2 ** 32 - 1, Number.MAX_SAFE_INTEGER]) expect(await say({ seed })).toBe(await say({ seed }))
  })
})

describe('temperature, top_k, top_p, min_p', () => {
  test('temperature 0 always takes the likeliest token, for any seed', async () => {
    const text = await say({ ...greedy, seed: 1 })
    expect(await say({ ...greedy, seed: 2 })).toBe(text)
    expect(await say({ seed: 1 })).not.toBe(text)
  })

  test('a temperature near 0 is nearly greedy, a high one is not', async () => {
    const text = await say(greedy)
    expect(await say({ temperature: 0.001, seed: 3 })).toBe(text)
    expect(await say({ temperature: 2, seed: 3 })).not.toBe(await say({ temperature: 1, seed: 3 }))
  })

  test.each([{ top_k: 1 }, { top_p: 0.000_1 }, { min_p: 1 }])('%o allows only the likeliest token', async (one) => {
    expect(await say({ ...one, seed: 4 })).toBe(await say(greedy))
  })

  const off = { top_k: -1, top_p: 1, min_p: 0, temperature: 1 }
  // The vocabulary has fewer tokens, and none is that unlikely.
  test.each([{ top_k: 10_000 }, { min_p: 1e-30 }])('%o allows all tokens, like all three switched off', async (one) => {
    expect(await say({ ...off, ...one, seed: 4 })).toBe(await say({ ...off, seed: 4 }))
  })

  test('the defaults exclude unlikely tokens', async () => {
    const usual = { temperature: 0.7, top_p: 0.95, top_k: 40, min_p: 0.05 }
    expect(await say({ seed: 4 })).toBe(await say({ ...usual, seed: 4 }))
    expect(await say({ seed: 4 })).not.toBe(await say({ ...off, seed: 4 }))
  })

  test('top_k 3 takes one of the three likeliest tokens', async () => {
    const likeliest = [...(await firstToken({})).keys()].slice(0, 3)
    const { choices } = await engine.chat({ top_k: 3, max_tokens: 1, n: 12, seed: 1 })
    const samples = new Set(choices.map(({ message }) => message.content ?? ''))
    expect(likeliest).toEqual(expect.arrayContaining([...samples]))
    expect(samples.size).toBeGreaterThan(1)
  })
})

describe('logit_bias', () => {
  test('-100 bans a token', async () => {
    const [first = ''] = await say(greedy)
    expect(await say({ ...greedy, logit_bias: { ...endless, [code(first)]: -100 } })).not.toContain(first)
  })

  test('100 forces a token', async () => {
    expect(await say({ seed: 5, max_tokens: 20, logit_bias: { [code('Q')]: 100 } })).toBe('Q'.repeat(20))
  })

  test('a bias of b makes a token e^b times as likely relative to the others', async () => {
    const before = await firstToken({})
    const [[first = '', most = 0] = [], [second = '', less = 0] = []] = before
    const after = await firstToken({ logit_bias: { [code(second)]: 1.5 } })
    expect((after.get(second) ?? 0) - (after.get(first) ?? 0)).toBeCloseTo(less - most + 1.5, 3)
  })

  test('the end can be forced', async () => {
    const { choices, usage } = await engine.chat({ seed: 1, logit_bias: { [EOS]: 100 } })
    expect(choices[0]).toMatchObject({ message: { content: '' }, finish_reason: 'stop' })
    expect(usage.completion_tokens).toBe(1)
  })

  test('the end can be banned', async () => {
    // Without the ban some seed ends early.
    for (let seed = 1; ; seed += 1) {
      const { choices, usage } = await engine.chat({ seed, max_tokens: 1_000 })
      if (choices[0]?.finish_reason === 'length') continue
      expect(usage.completion_tokens).toBeLessThan(1_000)
      const longer = await engine.chat({ seed, max_tokens: 1_000, logit_bias: endless })
      expect(longer.choices[0]?.finish_reason).toBe('length')
      expect(longer.usage.completion_tokens).toBe(1_000)
      return
    }
  })

  test('rejects an unknown token', async () => {
    const body = { model: 'tiny', messages: [{ role: 'user', content: 'x' }], logit_bias: { 99_999: 1 } }
    expect(await engine.refuse('/v1/chat/completions', body)).toMatchObject({
      status: 400,
      error: { param: 'logit_bias' },
    })
  })
})

describe('penalties', () => {
  const often = { ...greedy, max_tokens: 200 }

  test.each([{ frequency_penalty: 2 }, { presence_penalty: 2 }, { repetition_penalty: 2 }])(
    '%o makes the answer repeat itself less',
    async (penalty) => {
      expect(mostUsed(await say({ ...often, ...penalty }))).toBeLessThan(mostUsed(await say(often)))
    },
  )

  test('a negative frequency penalty makes the answer repeat itself more', async () => {
    expect(mostUsed(await say({ ...often, frequency_penalty: -2 }))).toBeGreaterThan(mostUsed(await say(often)))
  })

  test('frequency counts every use, presence only the first', async () => {
    // The forced letter has been used three times when the fourth token is sampled.
    const fourth = async (penalty: object): Promise<number> => {
      const body = { ...greedy, ...penalty, max_tokens: 4, logprobs: true, logit_bias: { [code('Q')]: 14 } }
      const { choices } = await engine.chat(body)
      expect(choices[0]?.message.content).toBe('QQQQ')
      return choices[0]?.logprobs?.content[3]?.logprob ?? 0
    }
    const odds = (logprob: number): number => logprob - Math.log(1 - Math.exp(logprob))
    const none = odds(await fourth({}))
    expect(odds(await fourth({ frequency_penalty: 1 })) - none).toBeCloseTo(-3, 1)
    expect(odds(await fourth({ presence_penalty: 1 })) - none).toBeCloseTo(-1, 1)
  })

  test('repetition counts the prompt too, frequency and presence only the answer', async () => {
    const before = await firstToken({})
    expect(await firstToken({ frequency_penalty: 2, presence_penalty: 2 })).toEqual(before)
    expect(await firstToken({ repetition_penalty: 2 })).not.toEqual(before)
  })
})
