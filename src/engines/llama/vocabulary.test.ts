/** The bytes of tokens, for both ways in which files write them. The tiny model shows the rest. */
import { LlamaVocabularyType, type Token } from 'node-llama-cpp'
import { expect, test } from 'vitest'
import { Vocabulary, type VocabularySource } from './vocabulary.ts'

function vocabulary(vocabularyType: LlamaVocabularyType, texts: Readonly<Record<string, string>>): Vocabulary {
  const kinds = Object.values(texts)
  const source = {
    vocabularyType,
    fileInfo: { metadata: { tokenizer: { ggml: { tokens: Object.keys(texts) } } } },
    tokens: { bos: 0, shouldPrependBosToken: true },
    // A letter is a token of its own here.
    tokenize: (text: string, special: boolean) => Array.from(text, (letter) => (special && letter === '^' ? 0 : 9)),
    detokenize: ([token]: number[]) => `token ${token}`,
    isEogToken: () => false,
    getTokenAttributes: (token: number) => Object.fromEntries([[kinds[token] ?? '', true]]),
  }
  return new Vocabulary(source as unknown as VocabularySource)
}

const shown = (words: Vocabulary, token: number): string => words.bytesOf(token as Token).toString('hex')

test('byte-level names are letters for bytes', () => {
  const words = vocabulary(LlamaVocabularyType.bpe, { Ġhi: 'normal', Ã: 'normal', '<é>': 'userDefined', 世: 'normal' })
  expect(shown(words, 0)).toBe(Buffer.from(' hi').toString('hex'))
  expect(shown(words, 1)).toBe('c3')
  expect(shown(words, 2)).toBe(Buffer.from('<é>').toString('hex'))
  expect(shown(words, 3)).toBe(Buffer.from('世').toString('hex'))
})

test('the other names have a mark for a blank, and bytes in hex', () => {
  const words = vocabulary(LlamaVocabularyType.spm, { '▁hé': 'normal', '<0xE2>': 'byte', '</s>': 'control' })
  expect(shown(words, 0)).toBe(Buffer.from(' hé').toString('hex'))
  expect(shown(words, 1)).toBe('e2')
  expect(shown(words, 2)).toBe('')
  expect(words.bytesOf(2 as Token, true).toString()).toBe('</s>')
  expect(words.specialTexts).toEqual(['</s>'])
})

test('what is written in another way is asked of the library', () => {
  expect(shown(vocabulary(LlamaVocabularyType.wpm, { a: 'normal' }), 0)).toBe(Buffer.from('token 0').toString('hex'))
})

test('a prompt begins with one beginning-of-sequence, whether its template writes it or not', () => {
  const words = vocabulary(LlamaVocabularyType.bpe, { '^': 'control' })
  expect(words.tokenize([{ text: '^ab', literal: false }])).toEqual([0, 9, 9])
  expect(words.tokenize([{ text: 'ab', literal: false }])).toEqual([0, 9, 9])
})

test('in a literal part the name of a special token is text', () => {
  const words = vocabulary(LlamaVocabularyType.bpe, { '^': 'control' })
  const parts = [
    { text: '^a', literal: false },
    { text: '^', literal: true },
  ]
  expect(words.tokenize(parts)).toEqual([0, 9, 9])
})
