/** Operator commands across all accounts: rentals, stuck rentals and inference traffic. */
import { spawn } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { NANO_PER_INPUT, NANO_PER_OUTPUT, serveModel, type TestModel } from '../../../test/harness/inference.ts'
import { succeed } from '../../../test/harness/journey.ts'
import type { Call } from '../../../test/harness/server.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { addMs, MINUTE_MS, systemClock, toDate } from '../../base/instant.ts'
import { formatUsdForPeople, nanoUsdOf } from '../../base/money.ts'
import { expireStates } from '../../reconcile/expire.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let customer: { id: string; key: string; call: Call }
let model: TestModel

beforeAll(async () => {
  cli = await startCliTest()
  customer = await cli.server.account({ usd: '1000' })
  model = await serveModel(cli.server)
})
afterAll(async () => {
  await model.upstream.close()
  await cli.close()
})

const done = async (...args: string[]): Promise<string> => {
  const { code, out, error } = await cli.berth(['operator', ...args])
  expect({ code, error }).toEqual({ code: 0, error: '' })
  return out
}

const inTerminal = (...args: string[]): Promise<string> =>
  cli.onScreen(['operator', ...args], { BERTH_KEY: cli.server.operatorKey })

interface RentalPage {
  readonly rentals: ReadonlyArray<{ id: number; name: string; status: string; externalId: string | null }>
  readonly nextCursor: string | null
}

const rentals = async (...args: string[]): Promise<RentalPage['rentals']> =>
  ((await cli.json('operator', 'rentals', ...args)) as RentalPage).rentals

/** Until it runs. */
async function rent(call: Call, label: string): Promise<number> {
  const order = { gpuCount: 1, region: 'mock-region', label }
  const { id } = await succeed(call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)
  await waitFor('it to run', async () => (await rentals('--status', 'Running')).some((rental) => rental.id === id))
  return id as number
}

test('lists all rentals, newest first, by account and state, in pages', async () => {
  expect(await done('rentals')).toBe('There are no rentals.\n')
  expect(await done('rentals', '--stuck')).toBe('No rental is stuck.\n')
  const ids = [await rent(cli.server.demo, 'one'), await rent(customer.call, 'two'), await rent(customer.call, 'three')]
  const screen = await inTerminal('rentals')
  const [first = '', second = '', third = ''] = screen.split('\n').slice(1)
  expect(first).toMatch(new RegExp(String.raw`^ *${ids[2]} +\w+-\w+-\w+ +Test 1 +vm +Running +\d+[sm]$`))
  expect(second).toMatch(new RegExp(`^ *${ids[1]} .* Test 1 `))
  expect(third).toMatch(new RegExp(`^ *${ids[0]} .* Demo `))
  expect(screen).toMatch(/\n\n3 rentals\n$/)
  expect((await rentals('--account', customer.id)).map(({ id }) => id)).toEqual([ids[2], ids[1]])
  const wide = await done('rentals', '--account', customer.id, '--wide', '--limit', '1')
  expect(wide).toMatch(
    new RegExp(`^ *${ids[2]} .* vm +Running .* ${customer.id} +1 +mock-region .* mock +\\d+ +mock-m-`, 'm'),
  )
  const [, next = ''] = /^There are more: berth (.*)$/m.exec(wide) ?? []
  expect(next).toMatch(new RegExp(`^operator rentals ls --account ${customer.id} --wide --limit 1 --cursor \\S+$`))
  expect((await cli.berth(next.split(' '))).out).toMatch(new RegExp(`^ *${ids[1]} `, 'm'))
  expect(await done('rentals', '--account', customer.id, '--status', 'Failed')).toContain('No rentals match.\n')
  const wrong = await cli.berth(['operator', 'rentals', '--status', 'happy'])
  expect(wrong).toMatchObject({ code: 2, out: '', error: expect.stringContaining('Allowed choices are Pending') })
  expect((await cli.berth(['operator', 'rentals', '--key', customer.key])).code).toBe(4)
})

test('shows stuck rentals with what to do', async () => {
  const id = await rent(customer.call, 'fault-destroy-slow')
  await succeed(customer.call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals/terminate', { rentalId: id })
  const { app } = cli.server
  const longAgo = toDate(addMs(systemClock.now(), -3 * 60 * MINUTE_MS))
  await app.database.db.updateTable('rental').set({ status_since: longAgo }).where('id', '=', id).execute()
  await expireStates(app).run(new AbortController().signal)

  const { name, externalId } = (await rentals('--stuck'))[0] ?? {}
  expect(await inTerminal('rentals')).toMatch(
    new RegExp(String.raw`^ *${id} +${name} +Test 1 +vm +Terminating +3h +customer request$`, 'm'),
  )
  expect(await done('rentals')).toContain('\n1 stuck: berth operator rentals ls --stuck\n')
  const stuck = await inTerminal('rentals', '--stuck')
  expect(stuck).toMatch(new RegExp(String.raw`^ *${id} .* Terminating +3h +customer request$`, 'm'))
  expect(stuck).toContain(`\nRental ${id}: mock ${externalId}, `)
  expect(stuck).toContain('nobody is charged')
  expect(await inTerminal('traffic')).toMatch(
    /\n\n1 rental stuck\. To see what to do: berth operator rentals ls --stuck\n$/,
  )
})

test('shows traffic of all accounts by model and by minute, and live', async () => {
  const before = await inTerminal('traffic', '--minutes', '5')
  expect(before).toMatch(/^Requests +0 in the last 5 minutes\nFailed +0\nTokens +0: 0 in, 0 out\nRevenue +\$0\.00$/m)
  expect(before).toMatch(/^test\/model +0 +0 +0$/m)
  expect(await done('traffic', '--by', 'minute')).toContain('No requests in this time.\n')

  const args = ['operator', 'traffic', '--watch', '--every', '1', '--json']
  const watching = spawn(process.execPath, [cli.program, ...args], { env: cli.environment() })
  let seen = ''
  watching.stdout.on('data', (chunk: Buffer) => (seen += chunk.toString()))
  const looks = (): Array<{ models: Array<{ requests: number }> }> =>
    seen
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { models: Array<{ requests: number }> })
  await waitFor('the first look', () => looks().length >= 1)
  const { usage } = await succeed(customer.call, 'POST', '/v1/chat/completions', {
    model: model.name,
    messages: [{ role: 'user', content: 'Hello' }],
  })
  await waitFor('a look that has it', () => looks().at(-1)?.models[0]?.requests === 1)
  watching.kill()

  const { prompt_tokens: input, completion_tokens: output } = usage as Record<string, number>
  const cost = formatUsdForPeople(
    nanoUsdOf(BigInt((input ?? 0) * NANO_PER_INPUT) + BigInt((output ?? 0) * NANO_PER_OUTPUT)),
  )
  const costWords = cost.replace('$', String.raw`\$`)
  const screen = await inTerminal('traffic')
  expect(screen).toMatch(/^Requests +1 in the last 60 minutes\nFailed +0 \(0\.0%\)$/m)
  expect(screen).toContain(`Tokens    ${(input ?? 0) + (output ?? 0)}: ${input} in, ${output} out\nRevenue   ${cost}\n`)
  expect(screen).toMatch(new RegExp(String.raw`^test/model +1 +0 +0 +[\d./]+ m?s +[\d./]+ m?s +${costWords}$`, 'm'))
  const byMinute = await inTerminal('traffic', '--by', 'minute')
  const minute = String.raw`^\d{4}-\d\d-\d\d \d\d:\d\d:00Z +1 +0 +${input} +${output} +${costWords}$`
  expect(byMinute).toMatch(new RegExp(minute, 'm'))
  expect(await cli.json('operator', 'traffic', '--minutes', '1')).toMatchObject({ minutes: [expect.anything()] })
  expect(await cli.berth(['operator', 'traffic', '--minutes', '181'])).toMatchObject({
    code: 2,
    out: '',
    error: expect.stringContaining('from 1 to 180.'),
  })
})
