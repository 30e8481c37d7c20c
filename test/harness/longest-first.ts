/**
 * The order of the test files: those that take a minute or more begin first, so that none of them is left alone at the
 * end while the other workers have nothing to do. Browsers come last, when no test makes networks any more: they end
 * every request when an interface of the machine comes or goes. The others fill the gap between, those of the engines,
 * which make networks too, first.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Longest first, and those with emulated guests, which take whole processors, not one beside the other. A file that is
 * not in it is taken for a short one; a name that no file has does no harm.
 */
const long = [
  'test/crash.test.ts',
  'test/bare-metal-volumes.test.ts',
  'test/host-faults.test.ts',
  'test/virtual-machines.test.ts',
  'test/journeys/bare-metal-host.test.ts',
  'test/inference-crash.test.ts',
  'src/engines/metal/runtime.test.ts',
  'test/journeys/virtual-machine-host.test.ts',
  'test/bare-metal.test.ts',
  'test/bad-input.test.ts',
  'src/engines/qemu/runtime.test.ts',
  'test/start.test.ts',
  'src/engines/metal/keep-lease.test.ts',
  'src/server/embedded-postgres.test.ts',
  'test/inference-outage.test.ts',
  'src/engines/image/main.test.ts',
  'test/pictures.test.ts',
  'test/journeys/money.test.ts',
  'src/engines/speech/main.test.ts',
  'test/journeys/local-models.test.ts',
]

/** With a browser. Longest first. */
const browsers = [
  'test/console/rentals.test.ts',
  'test/console/operator-money.test.ts',
  'test/console/operator-fleet.test.ts',
  'test/console/supply.test.ts',
  'test/console/account-access.test.ts',
  'test/console/rent.test.ts',
  'test/console/frame.test.ts',
  'test/console/account.test.ts',
  'test/console/playground.test.ts',
]
const makesNetworks = /\/src\/(engines|cli\/agent)|\/test\/(host-|virtual|bare-|journeys\/)/

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification): number => {
      const find = (names: readonly string[]): number => names.findIndex((name) => moduleId.endsWith(`/${name}`))
      if (find(long) !== -1) return find(long)
      const [engines, rest, browser] = [long.length, long.length + 1, long.length + 2]
      if (!moduleId.includes('/test/console/')) return makesNetworks.test(moduleId) ? engines : rest
      const at = find(browsers)
      return browser + (at === -1 ? browsers.length : at)
    }
    return (await super.sort(files)).toSorted((one, other) => placeOf(one) - placeOf(other))
  }
}
