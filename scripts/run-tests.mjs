/**
 * Runs vitest, then runs each file with a failure once more, alone. A test that passes then is printed as
 * `FLAKY <name>` and does not fail the run: on a busy machine one flaky test among thousands used to cost a whole
 * submission. It does fail the run if it was flaky in the run before, too. Nothing else is retried, and a run with
 * failures in many files is not retried at all: it is broken.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

const MAX_RETRIED_FILES = 10
const FLAKY_FILE = 'test-results/flaky.json'

/**
 * @typedef {import('../test/harness/closing-line.ts').RunResults} RunResults
 * @typedef {{ message?: string, passed?: number, failed?: number, skipped?: number, flaky?: string[] }} Closing
 * @typedef {{ name: string, program: string, args: string[] }} Check
 */

/**
 * Runs the parts one after the other and counts them together, once everything is `ready`. A check runs beside all that;
 * one that fails is one failure.
 *
 * @param {string} root
 * @param {ReadonlyArray<{ filters: string[], projects?: string[], workers?: number, env?: Record<string, string> }>} parts
 * @param {{ env?: Record<string, string | undefined>, check?: Check, ready?: Promise<void> }} options
 */
export async function runTests(root, parts, { env = process.env, check, ready } = {}) {
  const checking = check === undefined ? undefined : runCheck(root, check, env)
  await ready
  const runs = []
  for (const part of parts) {
    const { results, how, ok } = await runVitest(root, part, { ...env, ...part.env })
    if (results === undefined) return closeRun({ message: `vitest ended without a result (${how}).` })
    const failures = results.failures.map((failure) => ({ ...failure, env: part.env ?? {} }))
    runs.push({ ...results, failures, ok })
  }
  const isOk = runs.every(({ ok }) => ok)
  /** @param {(one: RunResults) => number} count */
  const sum = (count) => runs.reduce((all, one) => all + count(one), 0)
  const [failures, skips] = [runs.flatMap((one) => one.failures), runs.flatMap((one) => one.skips)]
  const [skipped, unhandledErrors] = [sum((one) => one.skipped), sum((one) => one.unhandledErrors)]
  const files = [...new Map(failures.map(({ file, env }) => [nameOf({ file, env }), { file, env }])).values()]
  const failedFirst = new Set(failures.map(nameOf))
  const flaky = []
  let passed = sum((one) => one.passed)
  let failed = unhandledErrors
  if (files.length > MAX_RETRIED_FILES) failed += failures.length
  else {
    for (const { file, env: partEnv } of files) {
      const ofFile = failures.filter((one) => one.file === file && one.env === partEnv)
      process.stdout.write(`\nRunning ${nameOf({ file, env: partEnv })} again, alone, because it failed.\n`)
      const { results, how } = await runVitest(root, { filters: [file] }, { ...env, ...partEnv })
      if (results === undefined) {
        process.stdout.write(`vitest ended without a result (${how}).\n`)
        failed += ofFile.length
        continue
      }
      const failedNow = new Set(results.failures.map((one) => nameOf({ ...one, env: partEnv })))
      // A test that fails only in the second run has failed all the same.
      passed -= [...failedNow].filter((name) => !failedFirst.has(name)).length
      failed += results.failed
      flaky.push(...ofFile.map(nameOf).filter((name) => !failedNow.has(name)))
    }
  }
  // Vitest can also fail where no test did: nothing matched the filter, or its cleanup failed.
  if (!isOk && files.length === 0) failed = Math.max(1, failed)
  const checked = await checking
  if (checked?.ok === false) failed += 1
  for (const { file, test } of skips) process.stdout.write(`SKIPPED ${file} > ${test}\n`)
  const again = rememberFlaky(root, flaky)
  for (const name of again) process.stdout.write(`FLAKY AGAIN ${name}\n`)
  passed += flaky.length - again.length
  const exitCode = closeRun({ passed, failed: failed + again.length, skipped, flaky })
  // On a build machine every suite has its engine: a skipped one hides a missing installation step.
  return env['CI'] === 'true' && skipped > 0 ? 1 : exitCode
}

/**
 * Keeps the names of flaky tests for the next run in this checkout, and returns those that were flaky in the last one.
 *
 * @param {string} root
 * @param {string[]} flaky
 */
function rememberFlaky(root, flaky) {
  const file = path.join(root, FLAKY_FILE)
  /** @type {string[]} */
  let before = []
  try {
    before = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ENOENT') throw error
  }
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify(flaky))
  return flaky.filter((name) => before.includes(name))
}

/**
 * A file may be in several parts, with other settings.
 *
 * @param {{ file: string, test?: string, env: Record<string, string> }} failure
 */
function nameOf({ file, test, env }) {
  const settings = Object.entries(env).map(([name, value]) => `${name}=${value} `)
  return settings.join('') + (test === undefined ? file : `${file} > ${test}`)
}

/**
 * Prints its output at once when it has failed, because nobody should wait for the tests to learn that.
 *
 * @param {string} root
 * @param {Check} check
 * @param {Record<string, string | undefined>} env
 */
async function runCheck(root, { name, program, args }, env) {
  let output = ''
  const ended = await run(root, program, args, { env, onOutput: (text) => void (output += text) })
  if (!ended.ok) process.stdout.write(`\n${output}\nFAILED ${name} (${ended.how})\n`)
  return ended
}

/** @param {Closing} closing */
function closeRun({ message, passed = 0, failed = 1, skipped = 0, flaky = [] }) {
  for (const name of flaky) process.stdout.write(`FLAKY ${name}\n`)
  if (flaky.length > 0) process.stdout.write(`${flaky.length} flaky: failed in the full run, passed alone\n`)
  if (message !== undefined) process.stdout.write(`\n${message}\n`)
  process.stdout.write(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`)
  return failed === 0 ? 0 : 1
}

/**
 * @param {string} root
 * @param {{ filters: string[], projects?: string[], workers?: number }} part
 * @param {Record<string, string | undefined>} env
 */
async function runVitest(root, { filters, projects = [], workers }, env) {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-test-results-'))
  const resultsFile = path.join(folder, 'results.json')
  const child = { ...env, BERTH_TEST_RESULTS: resultsFile }
  const chosen = projects.flatMap((name) => ['--project', name])
  const limit = workers === undefined ? [] : [`--maxWorkers=${workers}`]
  const args = ['node_modules/vitest/vitest.mjs', 'run', ...chosen, ...limit, ...filters]
  const ended = await run(root, process.execPath, args, { env: child })
  try {
    const results = /** @type {RunResults} */ (JSON.parse(readFileSync(resultsFile, 'utf8')))
    return { ...ended, results }
  } catch {
    // No file: vitest itself broke, and the caller reports how it ended.
    return { ...ended, results: undefined }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/**
 * @param {string} root
 * @param {string} program
 * @param {string[]} args
 * @param {{ env: Record<string, string | undefined>, onOutput?: (text: string) => void }} options
 * @returns {Promise<{ ok: boolean, how: string }>}
 */
export function run(root, program, args, { env, onOutput }) {
  const isScript = /\.[cm]?js$/.test(program)
  const child = spawn(isScript ? process.execPath : program, isScript ? [program, ...args] : args, {
    cwd: root,
    stdio: onOutput === undefined ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    env,
  })
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', onOutput ?? (() => {}))
  return new Promise((resolve) => {
    child.on('error', (error) => resolve({ ok: false, how: error.message }))
    child.on('close', (code, signal) => resolve({ ok: code === 0, how: signal ?? `exit code ${code}` }))
  })
}
