/** Loads the tiny model with the same library as large models. */
import fs from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { getLlama, type LlamaModel, type Token } from 'node-llama-cpp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { writeTinyGguf } from './tiny-gguf.ts'

let folder: string
let model: LlamaModel
beforeAll(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), 'berth-tiny-'))
  await writeTinyGguf(path.join(folder, 'one.gguf'))
  const llama = await getLlama({ build: 'never', skipDownload: true, gpu: false, maxThreads: 1 })
  model = await llama.loadModel({ modelPath: path.join(folder, 'one.gguf') })
})
afterAll(async () => {
  await model.dispose()
  await fs.rm(folder, { recursive: true, force: true })
})

test('the same seed gives the same small file, another seed a different one', async () => {
  const write = async (name: string, seed: number): Promise<Buffer> => {
    await writeTinyGguf(path.join(folder, name), { seed })
    return fs.readFile(path.join(folder, name))
  }
  const one = await write('a.gguf', 1)
  expect(one.equals(await write('b.gguf', 1))).toBe(true)
  expect(one.equals(await write('c.gguf', 2))).toBe(false)
  expect(one.length).toBeLessThan(120_000)
})

test('has metadata', () => {
  expect(model.trainContextSize).toBe(2_048)
  expect(model.fileInfo.metadata.tokenizer.chat_template).toContain('<|im_start|>')
})

test('any text round-trips, one token per byte', () => {
  for (const text of ['Hello', '  two\n\nlines\t', 'é—😀 世界', '\u0000\u007f']) {
    const tokens = model.tokenize(text)
    expect(tokens).toEqual([...Buffer.from(text)])
    expect(model.detokenize(tokens)).toBe(text)
  }
})

test('its output varies, is mostly printable, and sometimes ends by itself', async () => {
  const context = await model.createContext({ contextSize: 2_048, threads: 1 })
  const sequence = context.getSequence()
  const options = { temperature: 1, topK: 0, topP: 1, seed: 1, yieldEogToken: true }
  const tokens: Token[] = []
  for await (const token of sequence.evaluate(model.tokenize('Once'), options)) {
    tokens.push(token)
    if (tokens.length === 2_000) break
  }
  const share = (is: (token: Token) => boolean): number => tokens.filter(is).length / tokens.length
  expect(new Set(tokens).size).toBeGreaterThan(50)
  expect(share((token) => token >= 0x20 && token < 0x7f)).toBeGreaterThan(0.9)
  const ends = share((token) => model.isEogToken(token))
  expect(ends).toBeGreaterThan(0)
  expect(ends).toBeLessThan(0.02)
  await context.dispose()
})
