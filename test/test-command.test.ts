/** `npm test` retries failed files once, alone, and distinguishes flaky tests from broken ones. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'

const repository = path.resolve(import.meta.dirname, '..')

describe('the test command', () => {
  let project: string
  beforeEach(() => {
    project = mkdtempSync(path.join(tmpdir(), 'berth-test-command-'))
    symlinkSync(path.join(repository, 'node_modules'), path.join(project, 'node_modules'))
    const reporter = path.join(repository, 'test/harness/closing-line.ts')
    writeFileSync(
      path.join(project, 'vitest.config.mjs'),
      // One process for all files: each start takes half a second of CPU time.
      `export default { test: { reporters: [${JSON.stringify(reporter)}], maxWorkers: 1, isolate: false } }\n`,
    )
    mkdirSync(path.join(project, 'marks'))
  })
  afterEach(() => rmSync(project, { recursive: true }))

  /** A test whose first `failures` runs fail; each run appends to a file. */
  const source = (name: string, failures: number): string => `
    import { appendFileSync, readFileSync } from 'node:fs'
    import { expect, test } from 'vitest'
    test(${JSON.stringify(name)}, () => {
      const file = ${JSON.stringify(path.join(project, 'marks', name))}
      appendFileSync(file, 'x')
      expect(readFileSync(file, 'utf8').length).toBeGreaterThan(${failures})
    })
  `
  const write = (file: string, ...tests: string[]): void => {
    writeFileSync(
      path.join(project, file),
      tests.map((text, at) => (at === 0 ? text : text.replaceAll(/import .*/g, ''))).join(''),
    )
  }
  const run = (
    env: Record<string, string> = {},
    parts: ReadonlyArray<{ filters: string[]; env?: Record<string, string> }> = [{ filters: [] }],
    options: { check?: { name: string; program: string; args: string[] } } = {},
  ): { code: number | null; lines: string[] } => {
    const script = `import { runTests } from ${JSON.stringify(path.join(repository, 'scripts/run-tests.mjs'))}
      process.exitCode = await runTests(${JSON.stringify(project)}, ${JSON.stringify(parts)}, ${JSON.stringify(options)})`
    const { CI: _, ...outer } = process.env
    const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
      env: { ...outer, ...env },
    })
    return { code: status, lines: stdout.trimEnd().split('\n') }
  }

  test('reports a test that passes alone as flaky, without failing the run, and counts the parts of a run together', () => {
    write('steady.test.mjs', source('steady', 0))
    write('shaky.test.mjs', source('shaky', 1), source('firm', 0))
    const { code, lines } = run({}, [{ filters: ['steady'] }, { filters: ['shaky'] }])
    expect(lines).toContain('FLAKY shaky.test.mjs > shaky')
    expect(lines.at(-1)).toBe('3 passed, 0 failed')
    expect(code).toBe(0)
  })

  test('fails the run when a test was flaky in the run before, too', () => {
    write('shaky.test.mjs', source('shaky', 1))
    expect(run().lines.at(-1)).toBe('1 passed, 0 failed')
    rmSync(path.join(project, 'marks', 'shaky'))
    const { code, lines } = run()
    expect(lines).toContain('FLAKY AGAIN shaky.test.mjs > shaky')
    expect(lines.at(-1)).toBe('0 passed, 1 failed')
    expect(code).toBe(1)
    expect(run().lines.at(-1)).toBe('1 passed, 0 failed')
  })

  test('runs a failed file again with the settings of its part', () => {
    const failing = `import { expect, test } from 'vitest'
      test('one', () => expect(process.env['PART']).not.toBe('second'))`
    write('one.test.mjs', failing)
    const { code, lines } = run({}, [{ filters: [] }, { filters: [], env: { PART: 'second' } }])
    expect(lines).toContain('Running PART=second one.test.mjs again, alone, because it failed.')
    expect(lines.at(-1)).toBe('1 passed, 1 failed')
    expect(code).toBe(1)
  })

  test('fails the run when a test also fails alone, and when a file does not load', () => {
    write('steady.test.mjs', source('steady', 0))
    write('broken.test.mjs', source('broken', 9))
    write('unloadable.test.mjs', 'throw new Error("no")')
    const { code, lines } = run()
    expect(lines.filter((line) => line.startsWith('FLAKY'))).toEqual([])
    expect(lines.at(-1)).toBe('1 passed, 2 failed')
    expect(code).toBe(1)
  })

  test('runs the tests also when the check beside them fails, and fails the run', () => {
    write('steady.test.mjs', source('steady', 0))
    const args = ['-e', 'console.log("a finding"); process.exitCode = 3']
    const { code, lines } = run({}, undefined, { check: { name: 'the check', program: process.execPath, args } })
    expect(lines).toContain('a finding')
    expect(lines).toContain('FAILED the check (exit code 3)')
    expect(lines.at(-1)).toBe('1 passed, 1 failed')
    expect(code).toBe(1)
  })

  test('does not retry a run with failures in many files', () => {
    for (let at = 0; at < 11; at += 1) write(`shaky-${at}.test.mjs`, source(`shaky ${at}`, 1))
    const { code, lines } = run()
    expect(lines.at(-1)).toBe('0 passed, 11 failed')
    expect(code).toBe(1)
  })

  test('lists skipped tests, and fails the run on a CI machine', () => {
    write('absent.test.mjs', "import { test } from 'vitest'\ntest.skip('needs an engine', () => {})")
    write('steady.test.mjs', source('steady', 0))
    const local = run()
    expect(local.lines).toContain('SKIPPED absent.test.mjs > needs an engine')
    expect(local.lines.at(-1)).toBe('1 passed, 0 failed, 1 skipped')
    expect(local.code).toBe(0)
    expect(run({ CI: 'true' }).code).toBe(1)
  })
})
