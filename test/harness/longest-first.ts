/**
 * The order of the test files: those that take half a minute or more start first, so that none runs alone at the end while
 * the other workers are idle. Browser tests come last, when no test creates networks any more: browsers abort all
 * requests when a network interface comes or goes. The others fill the gap, engine tests first, because they create
 * networks too, or run beside the browsers.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Longest first, with tests of emulated guests, which use whole CPUs, spread out. A file not listed here counts as
 * short; an unknown name has no effect.
 */
const long = [
  'test/bare-metal-volumes.lab.test.ts',
  'test/journeys/serving.lab.test.ts',
  'test/install.lab.test.ts',
  'test/bad-input.test.ts',
  'test/image-generation.lab.test.ts',
  'src/cli/operator/provider-smoke.lab.test.ts',
  'test/journeys/bare-metal-host.lab.test.ts',
  'test/cloud-crash.lab.test.ts',
  'src/engines/image/main.lab.test.ts',
  'test/journeys/container.lab.test.ts',
  'test/image.lab.test.ts',
  'test/virtual-machines.lab.test.ts',
  'test/start.lab.test.ts',
  'test/journeys/virtual-machine-host.lab.test.ts',
  'test/tour.lab.test.ts',
  'test/serving-promises.test.ts',
  'test/host-faults.lab.test.ts',
  'src/runtimes/qemu/runtime.lab.test.ts',
  'test/journeys/cloud-variants.test.ts',
  'test/crash.lab.test.ts',
  'test/journeys/container-command.lab.test.ts',
  'test/tls-proxies.lab.test.ts',
  'test/sdk.test.ts',
  'test/test-command.test.ts',
  'src/runtimes/docker/images.lab.test.ts',
  'test/journeys/power.test.ts',
  'src/runtimes/ssh/runtime.lab.test.ts',
  'test/journeys/local-models.lab.test.ts',
  'test/request-bodies.lab.test.ts',
  'test/authorisation.test.ts',
  'src/runtimes/docker/fence.lab.test.ts',
  'src/engines/speech/main.lab.test.ts',
  'src/runtimes/docker/guard.lab.test.ts',
  'src/runtimes/docker/runtime.lab.test.ts',
  'src/runtimes/storage/kernel-client.lab.test.ts',
  'test/secret-key.lab.test.ts',
  'src/server/data/embedded-postgres.lab.test.ts',
  'test/journeys/money.test.ts',
  'test/backup.lab.test.ts',
  'test/journeys/commitment.test.ts',
  'src/runtimes/docker/disk-usage.lab.test.ts',
  'test/workers.lab.test.ts',
  'test/journeys/faults.test.ts',
  'test/inference-money.test.ts',
  'test/journeys/clouds.test.ts',
  'src/runtimes/qemu/volumes.lab.test.ts',
  'src/cli/cli.lab.test.ts',
  'test/several-servers.lab.test.ts',
  'src/runtimes/docker/container-ssh.lab.test.ts',
  'test/inference-fuzz.test.ts',
  'src/runtimes/docker/execution.lab.test.ts',
  'src/runtimes/qemu/small-image.lab.test.ts',
  'src/runtimes/storage/ganesha.lab.test.ts',
  'test/host-containers.lab.test.ts',
  'test/stop.lab.test.ts',
  'test/two-servers.lab.test.ts',
  'test/bare-metal.lab.test.ts',
  'test/inference-crash.lab.test.ts',
  'test/inference-outage.test.ts',
  'src/drivers/metal/keep-lease.test.ts',
]

/** Browser tests, longest first. */
const browsers = [
  'test/console/rent.lab.test.ts',
  'test/console/rentals.lab.test.ts',
  'test/console/frame.lab.test.ts',
  'test/console/operator-fleet.lab.test.ts',
  'test/console/account-access.lab.test.ts',
  'test/console/operator-money.lab.test.ts',
  'test/console/account.lab.test.ts',
  'test/console/supply.lab.test.ts',
  'test/console/playground.lab.test.ts',
  'test/console/marketplace.lab.test.ts',
  'test/console/sign-in.lab.test.ts',
  'test/console/playground-snippet.test.ts',
]
const makesNetworks = /\/src\/(engines|cli\/agent)|\/test\/(host-|virtual|bare-|journeys\/)/
/** Tests that mostly wait, without networks: they run beside browsers, which use whole CPUs. */
const waits = /\/src\/(cli|server)\//
const WAITING_PER_BROWSER = 4

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const groups = { long: [], engines: [], rest: [], browsers: [], waiting: [] } as Record<Group, TestSpecification[]>
    for (const file of await super.sort(files)) groups[groupOf(file)].push(file)
    const inOrder = (names: readonly string[], group: TestSpecification[]): TestSpecification[] =>
      group.toSorted((one, other) => placeIn(names, one) - placeIn(names, other))
    const { engines, rest, waiting } = groups
    const end = groups.browsers.length * WAITING_PER_BROWSER
    const beside = inOrder(browsers, groups.browsers).flatMap((browser, place) => [
      browser,
      ...waiting.slice(place * WAITING_PER_BROWSER, (place + 1) * WAITING_PER_BROWSER),
    ])
    return [...inOrder(long, groups.long), ...engines, ...rest, ...beside, ...waiting.slice(end)]
  }
}

type Group = 'long' | 'engines' | 'rest' | 'browsers' | 'waiting'

function groupOf(file: TestSpecification): Group {
  if (placeIn(long, file) < long.length) return 'long'
  if (file.moduleId.includes('/test/console/')) return 'browsers'
  if (makesNetworks.test(file.moduleId)) return 'engines'
  return waits.test(file.moduleId) ? 'waiting' : 'rest'
}

/** The number of names if it is none of them. */
function placeIn(names: readonly string[], { moduleId }: TestSpecification): number {
  const at = names.findIndex((name) => moduleId.endsWith(`/${name}`))
  return at === -1 ? names.length : at
}
