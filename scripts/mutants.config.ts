import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { mutants } from '../test/mutants/all.ts'
import { CLOUDS, mutate } from '../test/mutants/mutant.ts'

/** Suites of cloud drivers need no database and no bundle. The mutant of BERTH_MUTANT is applied as its file is read. */
const root = fileURLToPath(new URL('../', import.meta.url))
const mutant = mutants.find(({ id }) => id === process.env['BERTH_MUTANT'])

export default defineConfig({
  root,
  plugins: [
    {
      name: 'mutant',
      enforce: 'pre',
      transform: (code, path) =>
        mutant !== undefined && path === `${root}${CLOUDS}${mutant.file}` ? mutate(code, mutant) : undefined,
    },
  ],
  test: { include: [`${CLOUDS}**/cloud.test.ts`], pool: 'forks', maxWorkers: 1, testTimeout: 120_000, bail: 1 },
})
