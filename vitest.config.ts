import { configDefaults, defineConfig } from 'vitest/config'
import { LongestFirst } from './test/harness/longest-first.ts'

/** They come last, because they need Kubernetes, which is built meanwhile. BERTH_TEST_KUBERNETES=false leaves them out. */
const clusterSuites = [
  'test/kubernetes.lab.test.ts',
  'test/crash-kubernetes.lab.test.ts',
  'test/journeys/kubernetes.lab.test.ts',
  'test/berth-on-kubernetes.lab.test.ts',
]
/** One file at a time, with the CPU seconds of each. */
const countsCpu = process.env['BERTH_TEST_CPU'] === 'true'
const hasClusters = process.env['BERTH_TEST_KUBERNETES'] !== 'false'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...(hasClusters ? [] : clusterSuites)],
    globalSetup: ['test/harness/global-setup.ts'],
    pool: 'forks',
    // Servers run inside of the tests, and leave much garbage.
    execArgv: ['--max-semi-space-size=64'],
    // Test files share the modules of their worker: reading and running them anew for each file is a tenth of the work.
    isolate: false,
    // More than a build machine has processors: many tests wait for most of their time. With six, those that need a model to
    // be slow, or a host to be quick, failed.
    maxWorkers: countsCpu ? 1 : 5,
    sequence: { sequencer: LongestFirst },
    // A limit for what hangs; a busy machine is slow, not broken.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: ['default', './test/harness/closing-line.ts', ...(countsCpu ? ['./test/harness/cpu-report.ts'] : [])],
  },
})
