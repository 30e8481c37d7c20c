/** The list of mutants (`npm run mutants`) fits the drivers as they are now. */
import fs from 'node:fs'
import { expect, test } from 'vitest'
import { mutants } from './mutants/all.ts'
import { CLOUDS, mutate, suiteOf } from './mutants/mutant.ts'

test('every mutant has an id of its own', () => {
  expect(new Set(mutants.map(({ id }) => id)).size).toBe(mutants.length)
})

test.each(mutants)('$id changes one place of its driver (issue 31, 9)', (mutant) => {
  const source = fs.readFileSync(`${CLOUDS}${mutant.file}`, 'utf8')
  expect(mutate(source, mutant)).not.toBe(source)
  expect(fs.existsSync(suiteOf(mutant))).toBe(true)
})
