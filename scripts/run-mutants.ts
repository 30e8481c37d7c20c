/**
 * `npm run mutants`: runs the suite of each cloud driver as it is, then once per mutant (test/mutants/). A suite must pass the
 * first time and fail every other time. `npm run mutants -- L V1` runs only those whose id begins like that.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { mutants } from '../test/mutants/all.ts'
import { suiteOf } from '../test/mutants/mutant.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const chosen = process.argv.slice(2)
const isChosen = (id: string): boolean => chosen.length === 0 || chosen.some((start) => id.startsWith(start))
const tried = mutants.filter(({ id }) => isChosen(id))

/** How many tests failed. -1: the suite did not run. */
async function countFailures(suite: string, mutant = ''): Promise<number> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-mutant-'))
  const report = path.join(folder, 'report.json')
  const args = ['vitest', 'run', '--config', 'scripts/mutants.config.ts', '--reporter=json', '--outputFile', report]
  const run = spawn('npx', [...args, suite], {
    cwd: root,
    env: { ...process.env, BERTH_MUTANT: mutant },
    stdio: 'ignore',
  })
  await new Promise((resolve) => run.once('exit', resolve))
  const text = await readFile(report, 'utf8').catch(() => '{}')
  await rm(folder, { recursive: true })
  const { numTotalTests = 0, numFailedTests = 0 } = JSON.parse(text) as Record<string, number>
  return numTotalTests === 0 ? -1 : numFailedTests
}

const broken: string[] = []
for (const suite of new Set(tried.map(suiteOf))) if ((await countFailures(suite)) !== 0) broken.push(suite)
if (broken.length > 0) throw new Error(`These suites fail without a mutant: ${broken.join(', ')}`)
let caught = 0
for (const mutant of tried) {
  const isCaught = (await countFailures(suiteOf(mutant), mutant.id)) > 0
  if (isCaught) caught += 1
  console.log(`${isCaught ? 'caught  ' : 'SURVIVED'} ${mutant.id}: ${mutant.mistake}`)
}
console.log(`${caught} of ${tried.length} mutants caught`)
process.exitCode = caught === tried.length ? 0 : 1
