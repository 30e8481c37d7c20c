/**
 * Servers and agents are killed (SIGKILL) at each step of jobs and groups. Nothing runs twice by the word of the Docker
 * daemons, and nothing is billed twice by the statement of the customer.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SECOND_MS } from '../src/base/instant.ts'
import { usd } from '../src/base/money.ts'
import type { Reply } from './harness/exchange.ts'
import { chargedFor, checkLedgerAndEngines, succeed } from './harness/journey.ts'
import { waitFor } from './harness/wait.ts'
import { watchContainers, type Run, type Witness } from './lab/container-witness.ts'
import { whyNoDockerLab } from './lab/docker-lab.ts'
import { startMachinesOf, type Customer, type Machines } from './lab/machines.ts'
import { startServerLab, type ServerLab } from './lab/server-lab.ts'
import { needs } from './needs.ts'

needs('docker', 'kills', 'build')

/** Eight are each step with each victim once. */
const KILLS = Number.parseInt(process.env['BERTH_TEST_JOB_KILLS'] ?? '8', 10)
const MINUTE_MS = 60_000
const ROUND_MS = 3 * MINUTE_MS
/** A wait that takes too long is then named. */
const TEST_MS = 3 * ROUND_MS
/** A host that is out of contact for longer is given up, and its tasks start elsewhere. */
const GIVEN_UP_MS = 20 * SECOND_MS
/** The time of a charge may be later than the end of the process. */
const BILL_MS = 2 * SECOND_MS

const victims = ['server', 'agents'] as const
type Victim = (typeof victims)[number]
const jobSteps = ['is ordered', 'starts', 'runs', 'has ended'] as const
const groupSteps = ['is ordered', 'starts', 'runs', 'ends'] as const

interface Round<Step> {
  readonly n: number
  readonly step: Step
  readonly victim: Victim
}

function roundsOf<Step>(steps: readonly Step[]): Array<Round<Step>> {
  const each = steps.flatMap((step) => victims.map((victim) => ({ step, victim })))
  return Array.from({ length: KILLS }, (_, n) => ({ n, ...(each[n % each.length] as (typeof each)[number]) }))
}

const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`

describe.skipIf(why !== undefined)(`${KILLS} kills during jobs, and during groups${skipped}`, () => {
  let machines: Machines<ServerLab>
  let witness: Witness
  let ada: Customer
  let image: { readonly name: string; readonly tag: string }

  beforeAll(async () => {
    machines = await startMachinesOf({ hosts: 2, inGroups: true }, startServerLab)
    witness = await watchContainers(machines.hosts.map(({ docker }) => docker))
    ada = await machines.customer()
    const { name, tag } = machines.registry.images.busybox
    image = { name, tag }
  }, ROUND_MS)
  afterAll(async () => {
    witness?.close()
    await machines?.close()
  })

  /** Returns how long it was away. */
  async function killAndRestart(victim: Victim): Promise<number> {
    const { server, hosts } = machines
    const startedAt = performance.now()
    if (victim === 'server') {
      await server.kill()
      await server.start()
    } else {
      await Promise.all(hosts.map((host) => host.stopAgent('kill')))
      await Promise.all(hosts.map((host) => host.startAgent('kept')))
    }
    return performance.now() - startedAt
  }

  const runsOf = (rentalId: number): Run[] => witness.runs().filter((run) => run.rentalId === rentalId)
  /** By the word of the hosts, and then by that of the server. */
  async function untilFree(): Promise<void> {
    const { hosts, server } = machines
    const ours = () => Promise.all(hosts.map((host) => host.ours()))
    await waitFor('the hosts to be free', async () => (await ours()).flat().length === 0, ROUND_MS)
    await waitFor('the GPUs to be on sale', async () => {
      const { body } = await server.operator('GET', '/v2/operator/machines?limit=10')
      return (body.machines as Array<{ gpusInUse: number }>).every(({ gpusInUse }) => gpusInUse === 0)
    })
  }

  /** The charge of a rental: no more than its price for the time in which its container ran. Nothing, if nobody saw that. */
  async function expectOneBill(rentalId: number, costUsd: string): Promise<void> {
    const [run] = runsOf(rentalId)
    const { pricePerHourUsd } = await succeed(ada.call, 'GET', `/v2/rentals/${rentalId}`)
    const ranMs = (run?.endedAt ?? 0) - (run?.startedAt ?? 0)
    const charge = await chargedFor(ada.call, { rentalId })
    expect(charge).toBe(usd(costUsd))
    expect(charge).toBeLessThanOrEqual((usd(pricePerHourUsd) * BigInt(Math.ceil(ranMs) + BILL_MS)) / 3_600_000n)
  }

  describe('promise 49: jobs', () => {
    const tasksOf = async (id: string): Promise<Reply['body'][]> =>
      (await succeed(ada.call, 'GET', `/v2/jobs/${id}/tasks`)).tasks

    async function reach(id: string, step: (typeof jobSteps)[number]): Promise<void> {
      if (step === 'is ordered') return
      const from = witness.runs().filter(({ endedAt }) => endedAt !== null).length
      await waitFor(`the job: ${step}`, async () => {
        const { counts, endedAt } = await succeed(ada.call, 'GET', `/v2/jobs/${id}`)
        if (step === 'starts') return counts.starting > 0 || counts.running > 0 || endedAt !== null
        if (step === 'runs') return counts.running > 0 || endedAt !== null
        return witness.runs().filter((run) => run.endedAt !== null).length > from
      })
    }

    test.each(roundsOf(jobSteps))(
      '$n: the $victim while one $step',
      async ({ step, victim }) => {
        const script = 'mkdir -p /berth/output; echo run >> /berth/output/runs; sleep 2; echo end >> /berth/output/runs'
        const order = { image, command: ['/bin/sh', '-c', script], array: { count: 5, parallel: 4 } }
        const { id } = await succeed(ada.call, 'POST', '/v2/jobs', order)
        await reach(id, step)
        const awayMs = await killAndRestart(victim)
        const job = await waitFor(
          'the end of the job',
          async () => {
            const shown = await succeed(ada.call, 'GET', `/v2/jobs/${id}`)
            return shown.endedAt !== null && shown
          },
          ROUND_MS,
        )
        expect(job).toMatchObject({ state: 'Succeeded', counts: { succeeded: 5 } })
        await untilFree()
        const tasks = await tasksOf(id)
        const attempts = tasks.flatMap((task) => task.attempts)
        // Only a host that was given up has its tasks started elsewhere.
        expect(attempts.length === tasks.length || awayMs > GIVEN_UP_MS / 2).toBe(true)
        expect(attempts.filter(({ rentalId }) => runsOf(rentalId).length > 1)).toEqual([])
        const successes = attempts.filter(({ outcome }) => outcome === 'succeeded')
        expect(successes).toHaveLength(tasks.length)
        for (const { rentalId, costUsd, output } of successes) {
          expect(runsOf(rentalId)).toHaveLength(1)
          // Its own file shows that the command ran once, from the beginning to the end.
          expect(output.files).toEqual([{ path: 'runs', bytes: 'run\nend\n'.length }])
          await expectOneBill(rentalId, costUsd)
        }
      },
      TEST_MS,
    )
  })

  describe('promises 29 and 30: groups', () => {
    const look = (id: string) => succeed(ada.call, 'GET', `/v2/groups/${id}`)
    const untilState = (id: string, ...states: string[]) =>
      waitFor(
        `the group to be ${states.join(' or ')}`,
        async () => {
          const group = await look(id)
          return states.includes(group.state) && group
        },
        ROUND_MS,
      )

    test.each(roundsOf(groupSteps))(
      '$n: the $victim while one $step',
      async ({ step, victim }) => {
        const order = { nodes: 2, gpusPerNode: 2, clusterName: 'lab', command: ['/bin/sh', '-c', 'exec sleep 100000'] }
        const { id, nodes } = await succeed(ada.call, 'POST', '/v2/groups', order)
        const rentalIds = nodes.map(({ rentalId }: { rentalId: number }) => rentalId) as number[]
        if (step === 'starts') await waitFor('a container', () => rentalIds.some((one) => runsOf(one).length > 0))
        if (step === 'runs') await untilState(id, 'running')
        if (step !== 'ends') await killAndRestart(victim)
        await untilState(id, 'running')
        const rentals = await Promise.all(rentalIds.map((one) => succeed(ada.call, 'GET', `/v2/rentals/${one}`)))
        expect(new Set(rentals.map(({ startedAt }) => startedAt)).size).toBe(1)
        await succeed(ada.call, 'DELETE', `/v2/groups/${id}`)
        if (step === 'ends') await killAndRestart(victim)
        await untilState(id, 'ended')
        await untilFree()
        for (const rentalId of rentalIds) {
          const { costSoFarUsd } = await succeed(ada.call, 'GET', `/v2/rentals/${rentalId}`)
          expect(runsOf(rentalId)).toHaveLength(1)
          await expectOneBill(rentalId, costSoFarUsd)
        }
        const charges = await Promise.all(rentalIds.map((rentalId) => chargedFor(ada.call, { rentalId })))
        expect(charges[0]).toBe(charges[1])
      },
      TEST_MS,
    )
  })

  test('the ledger adds up, and the hosts have what the database says', async () => {
    expect(await checkLedgerAndEngines(machines.server)).toEqual([])
  })
})
