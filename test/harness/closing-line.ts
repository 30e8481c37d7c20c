/**
 * Ends a run with `N passed, N failed` and the true counts. Under `npm test`, which may run failed files once more, it
 * writes the counts and the names of the failures to the file in BERTH_TEST_RESULTS instead.
 */
import { writeFileSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'

export interface RunResults {
  passed: number
  failed: number
  skipped: number
  /** One entry per failed test; a file that failed outside its tests (load, hooks) has an entry without a test. */
  failures: { file: string; test?: string }[]
  skips: { file: string; test: string }[]
  /** Errors that belong to no test: they fail the run and are never retried. */
  unhandledErrors: number
}

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const results: RunResults = {
      passed: 0,
      failed: unhandled.length,
      skipped: 0,
      failures: [],
      skips: [],
      unhandledErrors: unhandled.length,
    }
    for (const module of modules) {
      const file = module.relativeModuleId
      let failedTests = 0
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        if (state === 'passed') results.passed += 1
        if (state === 'skipped') results.skips.push({ file, test: test.fullName })
        if (state !== 'failed') continue
        failedTests += 1
        results.failures.push({ file, test: test.fullName })
      }
      // A file that does not load, or whose hooks fail, may have no failed test and has failed all the same.
      if (module.state() === 'failed' && failedTests === 0) results.failures.push({ file })
    }
    results.failed += results.failures.length
    results.skipped = results.skips.length
    const resultsFile = process.env['BERTH_TEST_RESULTS']
    if (resultsFile !== undefined) return writeFileSync(resultsFile, JSON.stringify(results))
    const skipped = results.skipped > 0 ? `, ${results.skipped} skipped` : ''
    process.on('exit', () => process.stdout.write(`${results.passed} passed, ${results.failed} failed${skipped}\n`))
  }
}
