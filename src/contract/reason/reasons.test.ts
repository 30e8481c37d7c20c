import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { renderErrorReference } from '../../../scripts/error-reference.ts'
import { listFiles } from '../../../test/tidy/source.ts'
import type { ReasonEntry } from './reason-entry.ts'
import { reasons } from './reasons.ts'

const entries = Object.entries<ReasonEntry>(reasons)

describe('the table of reasons', () => {
  test('names no reason twice: a later table would overwrite the entry of an earlier one', async () => {
    const files = listFiles(['src/contract'], /\/reason-(?!entry)[a-z]+\.ts$/)
    const tables = await Promise.all(
      files.map(async (file) => Object.values((await import(path.resolve(file))) as Record<string, object>)),
    )
    const names = tables.flat().flatMap((table) => Object.keys(table))
    expect(names.toSorted()).toEqual(Object.keys(reasons).toSorted())
  })

  test('contains no reason that the code does not use', () => {
    const code = listFiles(['src'], /\.ts$/)
      .filter((file) => !/\.test\.ts$|^src\/contract\/reason/.test(file))
      .map((file) => fs.readFileSync(file, 'utf8'))
      .join('\n')
    expect(entries.map(([reason]) => reason).filter((reason) => !code.includes(`'${reason}'`))).toEqual([])
  })

  test('has whole sentences', () => {
    const texts = entries
      .flatMap(([, { sentence, next }]) => [sentence, next])
      .filter((text) => typeof text === 'string')
    expect(texts.filter((text) => !/^[A-Z`].*[.!]$/.test(text))).toEqual([])
  })

  test('is documented in docs/errors.md; `npm run error-reference` writes it', () => {
    expect(fs.readFileSync('docs/errors.md', 'utf8')).toBe(renderErrorReference())
  })
})
