/** Prompts in parts, on a sequence that only records its calls. */
import type { Token } from 'node-llama-cpp'
import { expect, test } from 'vitest'
import { evaluatePrompt, type PromptSequence } from './prompt-evaluation.ts'

class Recorder implements PromptSequence {
  contextTokens: Token[]
  readonly needsCheckpoints: boolean
  readonly evaluated: number[] = []
  onPart = (): void => {}

  constructor(contextLength: number, needsCheckpoints = false) {
    this.contextTokens = range(contextLength)
    this.needsCheckpoints = needsCheckpoints
  }

  async eraseContextTokenRanges([range]: Array<{ start: number; end: number }>): Promise<void> {
    if (range === undefined || range.end !== this.contextTokens.length) throw new Error('only the end can be forgotten')
    this.contextTokens = this.contextTokens.slice(0, range.start)
  }

  async evaluateWithoutGeneratingNewTokens(tokens: Token[]): Promise<void> {
    this.evaluated.push(tokens.length)
    this.contextTokens.push(...tokens)
    this.onPart()
  }
}

function range(length: number, from = 0): Token[] {
  return Array.from({ length }, (_, at) => (from + at) as Token)
}

async function evaluate(
  sequence: Recorder,
  prompt: Token[],
  { signal = new AbortController().signal, repeatable = false } = {},
) {
  const counts = { reused: 0, evaluated: 0 }
  const tally = {
    reused: (tokens: number) => void (counts.reused += tokens),
    evaluated: (tokens: number) => void (counts.evaluated += tokens),
  }
  return { lastTokens: await evaluatePrompt(sequence, { prompt, repeatable, tally, signal }), ...counts }
}

test('evaluates a long prompt in parts and leaves its end for the first token', async () => {
  const sequence = new Recorder(0)
  const { lastTokens, reused, evaluated } = await evaluate(sequence, range(75))
  expect(sequence.evaluated).toEqual([32, 32])
  expect(lastTokens).toEqual(range(11, 64))
  expect({ reused, evaluated }).toEqual({ reused: 0, evaluated: 75 })
})

test('stops a cancelled request after the current part of its prompt', async () => {
  const sequence = new Recorder(0)
  const disconnect = new AbortController()
  sequence.onPart = () => disconnect.abort()
  expect(await evaluate(sequence, range(2_000), { signal: disconnect.signal })).toEqual({
    lastTokens: undefined,
    reused: 0,
    evaluated: 32,
  })
  expect(sequence.evaluated).toEqual([32])
})

test('keeps the shared beginning of a sequence and drops the rest', async () => {
  const sequence = new Recorder(100)
  const prompt = [...range(60), ...range(20, 9_000)]
  expect(await evaluate(sequence, prompt)).toEqual({ lastTokens: range(20, 9_000), reused: 60, evaluated: 20 })
  expect(sequence.contextTokens).toEqual(range(60))
})

test('evaluates the last token of a fully cached prompt again', async () => {
  const sequence = new Recorder(100)
  expect(await evaluate(sequence, range(50))).toEqual({ lastTokens: range(1, 49), reused: 49, evaluated: 1 })
})

test('keeps a recurrent state as a whole or not at all', async () => {
  expect(await evaluate(new Recorder(40, true), range(50))).toMatchObject({ reused: 40 })
  expect(await evaluate(new Recorder(60, true), range(50))).toMatchObject({ reused: 0, evaluated: 50 })
})

/** Appends an answer to the prompt token by token, as generation does. */
async function answer(sequence: Recorder, prompt: Token[], tokens: Token[]): Promise<void> {
  const { lastTokens } = await evaluate(sequence, prompt)
  sequence.contextTokens.push(...(lastTokens ?? []), ...tokens)
}

test('a repeatable request reuses only whole parts of prompts, so its batches match a fresh sequence', async () => {
  const sequence = new Recorder(0)
  const prompt = range(100)
  await answer(sequence, prompt, range(50, 500))
  // 96 tokens were whole parts; the last 4 and the answer were not.
  const next = [...prompt, ...range(50, 500), ...range(30, 900)]
  sequence.evaluated.length = 0
  const { lastTokens, reused } = await evaluate(sequence, next, { repeatable: true })
  expect(reused).toBe(96)
  expect(sequence.evaluated).toEqual([32, 32])
  expect(lastTokens).toHaveLength(next.length - 160)

  const again = new Recorder(0)
  await answer(again, prompt, range(50, 500))
  expect(await evaluate(again, next)).toMatchObject({ reused: 150 })
  // That prompt continued in the middle of a part, so nothing after it is exact.
  again.contextTokens.push(...range(30, 900))
  expect(await evaluate(again, next, { repeatable: true })).toMatchObject({ reused: 96 })
})

test('forgets the exact parts when the sequence is cleared', async () => {
  const sequence = new Recorder(0)
  await answer(sequence, range(100), [])
  sequence.contextTokens = []
  await answer(sequence, range(40), range(60, 40))
  expect(await evaluate(sequence, range(120), { repeatable: true })).toMatchObject({ reused: 32 })
})
