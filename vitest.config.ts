import { configDefaults, defineConfig } from 'vitest/config'
import { LongestFirst } from './test/harness/longest-first.ts'
import { labProjects, labSuites } from './test/needs.ts'

/** One file at a time, with the CPU seconds of each. */
const countsCpu = process.env['BERTH_TEST_CPU'] === 'true'
const suites = labSuites(import.meta.dirname)

const shared = {
  pool: 'forks' as const,
  // Servers run inside of the tests, and leave much garbage.
  execArgv: ['--max-semi-space-size=64'],
  // Test files share the modules of their worker: reading and running them anew for each file is a tenth of the work.
  isolate: false,
  // A limit for what hangs; a busy machine is slow, not broken.
  testTimeout: 120_000,
  hookTimeout: 120_000,
}

export default defineConfig({
  test: {
    ...shared,
    projects: [
      {
        test: {
          ...shared,
          name: 'unit',
          include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, '**/*.lab.test.ts'],
        },
      },
      ...labProjects.map((name) => ({
        test: { ...shared, name, include: suites.filter(({ project }) => project === name).map(({ file }) => file) },
      })),
    ],
    globalSetup: ['test/harness/global-setup.ts'],
    // More than a build machine has processors: many tests wait for most of their time. With six, those that need a model to
    // be slow, or a host to be quick, failed.
    maxWorkers: countsCpu ? 1 : 5,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', './test/harness/closing-line.ts', ...(countsCpu ? ['./test/harness/cpu-report.ts'] : [])],
  },
})
