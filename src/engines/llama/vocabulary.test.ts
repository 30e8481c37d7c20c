/** The bytes of tokens in both encodings of token names. Tests on the tiny model cover the rest. */
import { LlamaVocabularyType, type Token } from 'node-llama-cpp'
import { expect, test } from 'vitest'
import { Vocabulary, type VocabularySource } from './vocabulary.ts'

function vocabulary(vocabularyType: LlamaVocabularyType, texts: Readonly<Record<string, string>>): Vocabulary {
  const kinds = Object.values(texts)
  const source = {
    vocabularyType,
    fileInfo: { metadata: { tokenizer: { ggml: { tokens: Object.keys(texts) } } } },
    tokens: { bos: 0, shouldPrependBosToken: true },
    // One token per letter.
    tokenize: (text: string, special: boolean) => Array.from(text, (letter) => (special && letter === '^' ? 0 : 9)),
    detokenize: ([token]: number[]) => `token ${token}`,
    isEogToken: () => false,
    getTokenAttributes: (token: number) => Object.fromEntries([[kinds[token] ?? '', true]]),
  }
  return new Vocabulary(source as unknown as VocabularySource)
}

const hexOf = (vocab: Vocabulary, token: number): string => vocab.bytesOf(token as Token).toString('hex')

test('decodes byte-level token names', () => {
  const vocab = vocabulary(LlamaVocabularyType.bpe, { Ġhi: 'normal', Ã: 'normal', '<é>': 'userDefined', 世: 'normal' })
  expect(hexOf(vocab, 0)).toBe(Buffer.from(' hi').toString('hex'))
  expect(hexOf(vocab, 1)).toBe('c3')
  expect(hexOf(vocab, 2)).toBe(Buffer.from('<é>').toString('hex'))
  expect(hexOf(vocab, 3)).toBe(Buffer.from('世').toString('hex'))
})

test('decodes SentencePiece names, with a mark for a space and bytes in hex', () => {
  const vocab = vocabulary(LlamaVocabularyType.spm, { '▁hé': 'normal', '<0xE2>': 'byte', '</s>': 'control' })
  expect(hexOf(vocab, 0)).toBe(Buffer.from(' hé').toString('hex'))
  expect(hexOf(vocab, 1)).toBe('e2')
  expect(hexOf(vocab, 2)).toBe('')
  expect(vocab.bytesOf(2 as Token, true).toString()).toBe('</s>')
  expect(vocab.specialTexts).toEqual(['</s>'])
})

test('uses the library for other vocabularies', () => {
  expect(hexOf(vocabulary(LlamaVocabularyType.wpm, { a: 'normal' }), 0)).toBe(Buffer.from('token 0').toString('hex'))
})

test('starts a prompt with exactly one beginning-of-sequence token', () => {
  const vocab = vocabulary(LlamaVocabularyType.bpe, { '^': 'control' })
  expect(vocab.tokenize([{ text: '^ab', literal: false }])).toEqual([0, 9, 9])
  expect(vocab.tokenize([{ text: 'ab', literal: false }])).toEqual([0, 9, 9])
})

test('treats a special token name in a literal part as text', () => {
  const vocab = vocabulary(LlamaVocabularyType.bpe, { '^': 'control' })
  const parts = [
    { text: '^a', literal: false },
    { text: '^', literal: true },
  ]
  expect(vocab.tokenize(parts)).toEqual([0, 9, 9])
})
