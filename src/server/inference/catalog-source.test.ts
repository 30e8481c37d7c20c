import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { builtInCatalog } from '../../domain/built-in-catalog.ts'
import { OperatorCatalog } from './catalog-source.ts'

const own = { ...builtInCatalog, models: builtInCatalog.models.slice(0, 1) }
let dataDir = ''
let warnings: string[] = []

beforeEach(async () => {
  dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-catalog-'))
  warnings = []
})
afterEach(() => rm(dataDir, { recursive: true }))

async function open(location: string, readUrl: () => Promise<string> = () => Promise.reject(new Error('no network'))) {
  const catalog = await OperatorCatalog.open({ location, dataDir, readUrl, warn: (problem) => warnings.push(problem) })
  catalog.close()
  return catalog
}

describe("an operator's catalog", () => {
  test('replaces the built-in one', async () => {
    const file = path.join(dataDir, 'own.json')
    await writeFile(file, JSON.stringify(own))
    const catalog = await open(file)
    expect([catalog.file.models.length, catalog.problem]).toEqual([1, null])
  })

  test.each([
    ['not JSON', '{"version": 1,'],
    ['not valid', JSON.stringify({ ...own, models: [{ id: 'x' }] })],
    ['too large', `"${'x'.repeat(4_000_001)}"`],
  ])('that is %s changes nothing and is reported once (gpus promise 26)', async (_, broken) => {
    const file = path.join(dataDir, 'own.json')
    await writeFile(file, JSON.stringify(own))
    const catalog = await open(file)
    await writeFile(file, broken)
    await catalog.refresh()
    await catalog.refresh()
    expect([catalog.file.models.length, warnings.length]).toEqual([1, 1])
    expect(catalog.problem).toBe(warnings[0])
    await writeFile(file, JSON.stringify(own))
    await catalog.refresh()
    expect(catalog.problem).toBeNull()
  })

  test('is still in use after a restart while its server does not answer', async () => {
    const url = 'https://catalog.test/catalog.json'
    await open(url, () => Promise.resolve(JSON.stringify(own)))
    const catalog = await open(url)
    expect([catalog.file.models.length, catalog.problem]).toEqual([1, 'no network'])
    expect(JSON.parse(await readFile(path.join(dataDir, 'catalog.json'), 'utf8'))).toEqual(own)
  })

  test('that was never read leaves the built-in one in use', async () => {
    const catalog = await open(path.join(dataDir, 'nothing.json'))
    expect([catalog.file, warnings.length]).toEqual([builtInCatalog, 1])
  })
})
