/** What a host gets with the program of a rental, beyond what the rental stores. */
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startJourney, succeed, type Journey } from '../../../test/harness/journey.ts'
import { programOf } from '../../domain/workload.ts'
import { findRental } from '../../store/rental/rental.ts'
import { resolveProgram } from './secret.ts'

const NODE = { cluster_name: 'mock-iad', node_name: 'mock-iad-h100-01', gpu_count: 1 }
const weights = {
  mountPath: '/models',
  files: [{ path: 'a.bin', bytes: 1, sha256: 'a'.repeat(64), source: { kind: 'https', url: 'https://example.com/a' } }],
}

let journey: Journey
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

async function rentWithWeights(call: Journey['demo']): Promise<number> {
  const { instance_id: name } = await succeed(call, 'POST', '/v1/marketplace/instances/create', NODE)
  const { id: rentalId } = await succeed(call, 'GET', `/v2/rentals/${name}`)
  // Orders of customers have no weights: those of their deployments do.
  await sql`
    update rental set spec = jsonb_set(spec, '{workload,weights}', ${JSON.stringify(weights)}::jsonb)
    where id = ${rentalId}`.execute(journey.app.database.db)
  return rentalId
}

async function weightsOwnerOf(rentalId: number): Promise<string | undefined> {
  const workload = (await findRental(journey.app.database.db, rentalId))?.spec.workload
  if (workload === undefined) throw new Error(`rental ${rentalId} has no options`)
  return (await resolveProgram(journey.app, rentalId, programOf(workload))).weights?.owner
}

test('rentals of one account share weights, those of two accounts do not (issue 31, 4)', async () => {
  const [ada, eve] = [await journey.account({ usd: '100' }), await journey.account({ usd: '100' })]
  const first = await weightsOwnerOf(await rentWithWeights(ada.call))
  expect(first).toMatch(/^[0-9a-f]{32}$/)
  expect(await weightsOwnerOf(await rentWithWeights(ada.call))).toBe(first)
  expect(await weightsOwnerOf(await rentWithWeights(eve.call))).not.toBe(first)
})
