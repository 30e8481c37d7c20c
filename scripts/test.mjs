/**
 * `npm test` runs the checks and every test that needs Node alone. `npm run test:lab` runs the suites that need more: all,
 * or those of the named projects (`npm run test:lab machines`), or the files whose path contains a word. `npm run test:all`
 * runs both. Whatever happens, the last line is `N passed, N failed` with the true counts, and the exit code is nonzero
 * when anything failed.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { labProjects, labSuites, needTable } from '../test/needs.ts'
import { run, runTests } from './run-tests.mjs'

/** @typedef {import('../test/needs.ts').LabSuite} LabSuite */
/** @typedef {{ projects: string[], filters: string[], workers?: number, env?: Record<string, string> }} Part */

/** Unit suites that run a second time, on Debian's PostgreSQL: the schema, its upgrade, and the API with every operation. */
const DATABASE_SUITES = [
  'src/store/platform/migrate.test.ts',
  'src/app/order/order-batch.test.ts',
  'test/schema.test.ts',
  'test/upgrade.test.ts',
  'test/authorisation.test.ts',
  ...['budget', 'chat', 'commitment', 'interface', 'marketplace', 'money', 'virtual-machine', 'volume'].map(
    (journey) => `test/journeys/${journey}.test.ts`,
  ),
]
/** Lab suites run whole machines beside each other: with five, emulated guests and agents missed their limits. */
const LAB_WORKERS = 4
const root = fileURLToPath(new URL('..', import.meta.url))
const canInstall = process.getuid?.() === 0 && existsSync('/etc/debian_version')

process.exitCode = await main(process.argv[2] ?? 'unit', process.argv.slice(3))

/**
 * @param {string} what
 * @param {string[]} words
 */
async function main(what, words) {
  // Ctrl-C reaches the child too; it stops by itself and this process reports the result.
  process.on('SIGINT', () => {})
  // Everything that walks over all operations takes a sample of the inputs unless this is set.
  /** @type {Part} */
  const unit = { projects: ['unit'], filters: words, ...(what === 'all' ? { env: { BERTH_TEST_WALK: 'all' } } : {}) }
  // Checks use one processor at a time, and most tests wait for something: side by side both take less time.
  const check = {
    name: 'npm run check',
    program: process.env['npm_execpath'] ?? 'npm',
    args: ['run', '--silent', 'check'],
  }
  if (what === 'unit') return runTests(root, [unit], words.length === 0 ? { check } : {})
  const lab = chooseLab(what === 'all' ? [] : words)
  const ready = installNeeds(lab.suites)
  // Programs are built from Go modules in the time in which packages are installed and other tests wait.
  const buildsGo = lab.suites.some(({ needs }) => needs.includes('go') || needs.includes('kubernetes'))
  const script = ['--import', 'tsx', 'scripts/build-lab.ts', ...(lab.hasClusters ? ['kubernetes'] : [])]
  const building = buildsGo
    ? spawn(process.execPath, script, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
    : undefined
  try {
    return what === 'all'
      ? await runTests(root, [unit, ...lab.parts], { check, ready })
      : await runTests(root, lab.parts, { ready })
  } finally {
    building?.kill()
  }
}

/**
 * The suites of the named projects, or those whose path contains a word, in the parts in which they run. Kubernetes
 * comes last: its programs are built meanwhile, and its networks disturb browsers.
 *
 * @param {string[]} words
 */
function chooseLab(words) {
  const names = words.filter((word) => labProjects.some((name) => name === word))
  const filters = words.filter((word) => !names.includes(word))
  const suites = labSuites(root).filter(
    ({ file, project }) =>
      (names.length === 0 || names.includes(project)) &&
      (filters.length === 0 || filters.some((filter) => file.includes(filter))),
  )
  if (suites.length === 0) throw new Error(`No lab suite matches ${words.join(' ')}.`)
  const projects = labProjects.filter((name) => suites.some(({ project }) => project === name))
  const most = projects.filter((name) => name !== 'kubernetes')
  const hasClusters = projects.includes('kubernetes')
  const hasPostgres = canInstall || existsSync('/usr/lib/postgresql')
  /** @type {Part[]} */
  const parts = [
    ...(most.length > 0 ? [{ projects: most, filters, workers: LAB_WORKERS }] : []),
    ...(words.length === 0 && hasPostgres
      ? [{ projects: ['unit'], filters: DATABASE_SUITES, env: { BERTH_TEST_POSTGRES: 'debian' } }]
      : []),
    ...(hasClusters ? [{ projects: ['kubernetes'], filters }] : []),
  ]
  return { suites, parts, hasClusters }
}

/**
 * As root on Debian, installs what is missing; elsewhere, lists it, and the suites that need it are skipped.
 *
 * @param {LabSuite[]} suites
 */
async function installNeeds(suites) {
  const missing = new Map()
  for (const need of new Set(suites.flatMap((suite) => suite.needs))) {
    const { programs, what } = needTable[need]
    for (const program of programs) {
      if (missing.has(program.command) || hasProgram(program.command)) continue
      missing.set(program.command, program)
      process.stdout.write(`${program.command} is missing, which the suites that need ${what} use.\n`)
    }
  }
  if (missing.size === 0) return
  const packages = [...missing.values()].flatMap((program) => [program.package, ...(program.beside ?? [])])
  if (!canInstall) return void process.stdout.write(`Install: ${packages.join(' ')}\n`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  await run(root, 'apt-get', ['update', '-q'], { env })
  await run(root, 'apt-get', ['install', '-qy', '--no-install-recommends', ...packages], { env })
}

/** @param {string} command */
function hasProgram(command) {
  return spawnSync('sh', ['-c', `command -v ${command}`]).status === 0
}
