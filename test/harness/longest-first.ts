/**
 * The order of the test files: those that take a minute or more begin first, so that none of them is left alone at the
 * end while the other workers have nothing to do. The others follow as vitest puts them, and fill the gaps.
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
  'src/engines/metal/keep-turn.test.ts',
  'src/server/embedded-postgres.test.ts',
  'test/inference-outage.test.ts',
  'src/engines/picture/main.test.ts',
  'test/pictures.test.ts',
  'test/journeys/money.test.ts',
  'src/engines/speech/main.test.ts',
  'test/journeys/local-models.test.ts',
]

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification): number => {
      const place = long.findIndex((name) => moduleId.endsWith(`/${name}`))
      return place === -1 ? long.length : place
    }
    return (await super.sort(files)).toSorted((one, other) => placeOf(one) - placeOf(other))
  }
}
