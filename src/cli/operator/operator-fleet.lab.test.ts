/** The fleet on the command line: what is shown of every machine, and what an operator changes of one. */
import { fail } from '../../contract/result.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { succeed } from '../../../test/harness/journey.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { addMs, MINUTE_MS, systemClock, toDate } from '../../base/instant.ts'
import { expireStates } from '../../reconcile/expire.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest

/** Two with four GPUs each, of a supplier of the simulated engine. */
const MACHINE = 'mock-iad-l40s-01'
const OTHER = 'mock-iad-l40s-02'

beforeAll(async () => {
  cli = await startCliTest()
  await waitFor('the machines to be known', async () => (await fleet()).machines.length > 0)
})
afterAll(() => cli.close())

interface FleetPage {
  readonly machines: ReadonlyArray<{
    id: string
    status: string
    supplierId: string | null
    pricePerGpuHourUsd: string | null
  }>
  readonly nextCursor: string | null
}

const fleet = async (...args: string[]): Promise<FleetPage> =>
  (await cli.json('operator', 'fleet', ...args)) as FleetPage

const done = async (...args: string[]): Promise<string> => {
  const { code, out, error } = await cli.berth(args)
  expect({ code, error }).toEqual({ code: 0, error: '' })
  return out
}

const change = (...args: string[]) => cli.berth(['operator', 'machine', MACHINE, ...args, '--reason', 'fan replaced'])

const inTerminal = (args: readonly string[]): Promise<string> =>
  cli.onScreen(args, { BERTH_KEY: cli.server.operatorKey })

test('fleet: lists machines with GPUs, engine and supplier in 80 columns', async () => {
  const { machines } = await fleet()
  const screen = await inTerminal(['operator', 'fleet'])
  expect(screen).toMatch(new RegExp(String.raw`^${MACHINE} +ready +L40S +0/4 +mock +mock-fleet-east$`, 'm'))
  expect(screen).toMatch(/^mock-lab-h100-01 +ready +H100 SXM5 +0\/8 +mock +the operator$/m)
  expect(screen).toContain(`\n\n${machines.length} machines\n`)
  expect(Math.max(...screen.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
  for (const { id } of machines) expect(screen).toContain(`\n${id} `)
  const wide = await done('operator', 'fleet', '--wide', '--find', MACHINE)
  expect(wide).toMatch(/ mock-fleet-east +marketplace +us-east +mock-iad +\$0\.84 {2}\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ$/m)
  expect(await done('operator', 'fleet', '--wide', '--find', 'mock-lab-h100-01')).toMatch(/ virtual-machine .* book  /)
})

test('fleet: filters by name, offering and status, in pages', async () => {
  const all = await fleet()
  const matches = await fleet('--find', 'L40s', '--limit', '2')
  expect(matches).toMatchObject({ machines: [{ id: MACHINE }, { id: OTHER }], nextCursor: null })
  const metal = await done('operator', 'fleet', '--offering', 'bare-metal')
  expect(metal).not.toContain(MACHINE)
  expect(metal).toMatch(/^\d+ machines?$/m)
  expect(await done('operator', 'fleet', '--status', 'lost')).toBe(
    'No machines match.\nTo list all of them: berth operator fleet ls\n',
  )

  const seen: string[] = []
  let page = await done('operator', 'fleet', '-n', '10')
  for (;;) {
    seen.push(...page.split('\n').flatMap((line) => /^mock-\S+/.exec(line) ?? []))
    const [, cursor] = /^There are more: berth operator fleet ls --limit 10 --cursor (\S+)$/m.exec(page) ?? []
    if (cursor === undefined) break
    page = await done('operator', 'fleet', '-n', '10', '--cursor', cursor)
  }
  expect(seen).toEqual(all.machines.map(({ id }) => id))
  expect((await cli.berth(['operator', 'fleet', '--status', 'happy'])).code).toBe(2)
  expect((await cli.berth(['operator', 'fleet', '--key-file', `${cli.folder}/demo.key`])).code).toBe(4)
})

test('machine: drains, unlists, assigns and withdraws GPUs, and undoes all of it', async () => {
  const { id: supplier } = await cli.server.account({ platformFeePercentage: 10 })
  const changed = await change('--drain', '--unlist', '--supplier', supplier, '--faulty', '2,0')
  expect(changed).toMatchObject({ code: 0, error: '' })
  expect(changed.out).toMatch(/^Status +draining$/m)
  expect(changed.out).toMatch(/^On sale +no$/m)
  expect(changed.out).toMatch(new RegExp(`^Supplier +${supplier}$`, 'm'))
  expect(changed.out).toMatch(/^GPUs +4 L40S, 0 in use$/m)
  expect(changed.out).toMatch(/^Faulty GPUs +0, 2$/m)
  expect(await done('operator', 'fleet', '--status', 'draining')).toMatch(
    new RegExp(String.raw`^${MACHINE} +draining +L40S +0/4 +0, 2 +mock +${supplier}$`, 'm'),
  )

  expect((await change('--resume')).out).toMatch(/^Status +ready\nOn sale +no$/m)
  expect(await done('operator', 'fleet', '--find', MACHINE)).toMatch(/ off sale /)
  const back = await change('--list', '--supplier', 'none', '--faulty', 'none', '--json')
  expect(JSON.parse(back.out)).toMatchObject({ id: MACHINE, listed: true, supplierId: null, gpusSick: [] })
  const byDriver = ['operator', 'machine', 'mock-pdx-rtx4090-02', '--faulty', 'none', '--reason', 'all of them are fit']
  expect(await done(...byDriver)).toMatch(/^Faulty GPUs +3 \(3 reported by its engine\)$/m)
  const { records } = await succeed(cli.server.operator, 'GET', '/v2/operator/audit?limit=2')
  expect(records[1]).toMatchObject({
    action: 'machine.change',
    subject: `machine:${MACHINE}`,
    reason: 'fan replaced',
    detail: { listed: true, supplierId: null, gpusSick: [] },
  })
})

test('machine: the operator prices only its own marketplace machines', async () => {
  const [machine] = (await fleet('--find', MACHINE)).machines
  expect((await change('--supplier', 'none')).out).toMatch(/^Supplier +the operator$/m)
  expect((await change('--price', '0.77')).out).toMatch(/^Price +\$0\.77 per GPU-hour$/m)
  const { records } = await succeed(cli.server.operator, 'GET', '/v2/operator/audit?limit=1')
  expect(records[0]).toMatchObject({ subject: `machine:${MACHINE}`, detail: { pricePerGpuHourUsd: '0.770000000' } })
  const { id: supplier } = await cli.server.account({ platformFeePercentage: 10 })
  const both = await change('--supplier', supplier, '--price', '0.50')
  expect(both).toMatchObject({ code: 1, error: expect.stringContaining(fail('supplier_priced').message) })
  const byBook = ['operator', 'machine', 'mock-lab-h100-01', '--price', '1', '--reason', 'a test']
  expect((await cli.berth(byBook)).error).toContain('Check --price.')
  expect((await change('--price', '-1')).code).toBe(2)
  expect((await change('--price', machine?.pricePerGpuHourUsd ?? '')).code).toBe(0)
  expect((await change('--supplier', machine?.supplierId ?? 'none')).code).toBe(0)
  const { supplierId, pricePerGpuHourUsd } = machine ?? {}
  expect((await fleet('--find', MACHINE)).machines).toMatchObject([{ supplierId, pricePerGpuHourUsd }])
})

test('machine: rejects invalid changes with a sentence and changes nothing', async () => {
  const before = await fleet('--find', MACHINE)
  expect(await change()).toMatchObject({ code: 2, error: expect.stringContaining('No changes were given.') })
  expect(await change('--drain', '--resume')).toMatchObject({ code: 2, error: expect.stringContaining('--resume') })
  expect(await change('--faulty', '1;2')).toMatchObject({ code: 2, error: expect.stringContaining('such as 0,3') })
  expect(await cli.berth(['operator', 'machine', MACHINE, '--drain'])).toMatchObject({
    code: 2,
    error: expect.stringContaining('--reason'),
  })
  expect(await change('--faulty', '64')).toMatchObject({ code: 2, error: expect.stringContaining('from 0 to 63') })
  expect(await change('--faulty', '4')).toMatchObject({
    code: 1,
    error: `error: ${fail('gpu_out_of_range', { gpus: 4 }).message}\n  Check --faulty.\n`,
  })
  expect(await change('--supplier', 'demo')).toMatchObject({
    code: 1,
    error: expect.stringContaining('berth operator accounts ls'),
  })
  const unknown = await cli.berth(['operator', 'machine', 'nobody', '--drain', '--reason', 'for the test'])
  expect(unknown).toMatchObject({ code: 1, error: expect.stringContaining('berth operator fleet ls') })
  expect((await fleet('--find', MACHINE)).machines).toEqual(before.machines)
})

test('fleet: reports stuck rentals', async () => {
  const path = '/v2/alpha/on-demand/virtual-machine-rentals'
  const order = { gpuCount: 1, region: 'mock-region', label: 'fault-destroy-slow' }
  const { id } = await succeed(cli.server.demo, 'POST', path, order)
  const isIn = (status: string) => async (): Promise<boolean> =>
    (await succeed(cli.server.demo, 'GET', `/v2/alpha/on-demand/rentals/${id}`)).status === status
  await waitFor('the machine to run', isIn('Running'))
  expect(await done('operator', 'fleet')).not.toContain('hang')
  await succeed(cli.server.demo, 'POST', `${path}/terminate`, { rentalId: id })
  const { app } = cli.server
  const longAgo = toDate(addMs(systemClock.now(), -16 * MINUTE_MS))
  await app.database.db.updateTable('rental').set({ status_since: longAgo }).where('id', '=', id).execute()
  await expireStates(app).run(new AbortController().signal)

  expect(await done('operator', 'fleet', '--find', MACHINE)).toContain(
    '\n\n1 rental stuck. To see what to do: berth operator rentals ls --stuck\n',
  )
})
