/** The table types match the schema, and the value lists of the schema match those of the code. */
import { readFile } from 'node:fs/promises'
import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { describeTables, readValueLists } from '../scripts/tables.ts'
import { testDatabase } from './harness/database.ts'
import { listsOfCode, listsOfStore } from './tidy/schema-lists.ts'

const database = await testDatabase()
const pool = new pg.Pool({ connectionString: database.url, max: 1 })
afterAll(async () => {
  await pool.end()
  await database.drop()
})

test('src/store/platform/tables.ts matches the schema (run `npm run tables` to update)', async () => {
  expect(await readFile('src/store/platform/tables.ts', 'utf8')).toBe(await describeTables(pool))
})

describe('the schema matches the code', async () => {
  const lists = await readValueLists(pool)

  test('every value list is compared, or belongs to the store alone', () => {
    expect([...lists.keys()].toSorted()).toEqual([...Object.keys(listsOfCode), ...listsOfStore].toSorted())
  })

  test.each(Object.entries(listsOfCode))('%s', (column, ofCode) => {
    for (const words of ofCode) expect(lists.get(column)?.toSorted()).toEqual(words.toSorted())
  })
})
