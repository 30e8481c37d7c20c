/**
 * Suites that walk over all operations try many inputs each. `npm test` takes a sample of them, another one in each run;
 * with BERTH_TEST_WALK=all, as in `npm run test:all`, they try everything.
 */
import { randomInt } from 'node:crypto'
import { randomFrom } from './chat-fuzz.ts'

const SHARE = 0.2
const isWhole = process.env['BERTH_TEST_WALK'] === 'all'
/** Part of the message of a failure. BERTH_TEST_WALK_SEED repeats its sample. */
export const walkSeed = Number.parseInt(process.env['BERTH_TEST_WALK_SEED'] ?? String(randomInt(2 ** 31)), 10)
const random = randomFrom(walkSeed)

export function sampleOf<Item>(items: readonly Item[]): readonly Item[] {
  return isWhole ? items : items.filter(() => random() < SHARE)
}
