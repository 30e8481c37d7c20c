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
  'test/bare-metal-volumes.test.ts',
  'test/journeys/serving.test.ts',
  'test/install.test.ts',
  'test/bad-input.test.ts',
  'test/image-generation.test.ts',
  'src/cli/provider-smoke.test.ts',
  'test/journeys/bare-metal-host.test.ts',
  'test/cloud-crash.test.ts',
  'src/engines/image/main.test.ts',
  'test/journeys/container.test.ts',
  'test/image.test.ts',
  'test/virtual-machines.test.ts',
  'test/start.test.ts',
  'test/journeys/virtual-machine-host.test.ts',
  'test/tour.test.ts',
  'test/serving-promises.test.ts',
  'test/host-faults.test.ts',
  'src/engines/qemu/runtime.test.ts',
  'test/journeys/cloud-variants.test.ts',
  'test/crash.test.ts',
  'test/journeys/container-command.test.ts',
  'test/tls-proxies.test.ts',
  'test/sdk.test.ts',
  'test/test-command.test.ts',
  'src/engines/docker/images.test.ts',
  'test/journeys/power.test.ts',
  'src/engines/metal/runtime.test.ts',
  'test/journeys/local-models.test.ts',
  'test/request-bodies.test.ts',
  'test/authorisation.test.ts',
  'src/engines/docker/fence.test.ts',
  'src/engines/speech/main.test.ts',
  'src/engines/docker/guard.test.ts',
  'src/engines/docker/runtime.test.ts',
  'src/engines/storage/kernel-client.test.ts',
  'test/secret-key.test.ts',
  'src/server/embedded-postgres.test.ts',
  'test/journeys/money.test.ts',
  'test/backup.test.ts',
  'test/journeys/commitment.test.ts',
  'src/engines/docker/disk-usage.test.ts',
  'test/workers.test.ts',
  'test/journeys/faults.test.ts',
  'test/inference-money.test.ts',
  'test/journeys/clouds.test.ts',
  'src/engines/qemu/volumes.test.ts',
  'src/cli/cli.test.ts',
  'test/several-servers.test.ts',
  'src/engines/docker/container-ssh.test.ts',
  'test/inference-fuzz.test.ts',
  'src/engines/docker/execution.test.ts',
  'src/engines/qemu/small-image.test.ts',
  'src/engines/storage/ganesha.test.ts',
  'test/host-containers.test.ts',
  'test/stop.test.ts',
  'test/two-servers.test.ts',
  'test/bare-metal.test.ts',
  'test/inference-crash.test.ts',
  'test/inference-outage.test.ts',
  'src/engines/metal/keep-lease.test.ts',
]

/** Browser tests, longest first. */
const browsers = [
  'test/console/rent.test.ts',
  'test/console/rentals.test.ts',
  'test/console/frame.test.ts',
  'test/console/operator-fleet.test.ts',
  'test/console/account-access.test.ts',
  'test/console/operator-money.test.ts',
  'test/console/account.test.ts',
  'test/console/supply.test.ts',
  'test/console/playground.test.ts',
  'test/console/marketplace.test.ts',
  'test/console/sign-in.test.ts',
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
