/** The operator's accounts, money and prices on the command line, and a server that really keeps them. */
import { fail } from '../../contract/result.ts'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest, type Outcome } from '../../../test/lab/cli.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { formatUsd, formatUsdForPeople, nanoUsdOf, usd, type NanoUsd } from '../../base/money.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest

beforeAll(async () => {
  cli = await startCliTest()
})
afterAll(() => cli.close())

const operator = (...args: string[]): Promise<Outcome> => cli.berth(['operator', ...args])

const done = async (...args: string[]): Promise<string> => {
  const { code, out, error } = await operator(...args)
  expect({ code, error }).toEqual({ code: 0, error: '' })
  return out
}

const refused = async (...args: string[]): Promise<string> => {
  const { code, out, error } = await operator(...args)
  expect({ code, out }).toEqual({ code: 1, out: '' })
  return error
}

const inTerminal = (...args: string[]): Promise<string> =>
  cli.onScreen(['operator', ...args], { BERTH_KEY: cli.server.operatorKey })

interface Shown {
  readonly availableUsd: string
  readonly heldUsd: string
  readonly earningsUsd: string
  readonly suspended: boolean
  readonly rentals: ReadonlyArray<{ readonly id: number; readonly status: string }>
  readonly records: ReadonlyArray<{ readonly action: string; readonly reason: string; readonly detail: unknown }>
}

const show = async (id: string): Promise<Shown> => (await cli.json('operator', 'accounts', 'show', id)) as Shown

/** A line to the server. The first `times` that money is moved over it, it is cut when the answer comes. */
function lineThatHangsUp(times: number): net.Server {
  let left = times
  return net.createServer((near) => {
    const far = net.connect(Number(new URL(cli.server.url).port), '127.0.0.1')
    let isMove = false
    near.on('data', (chunk: Buffer) => {
      isMove ||= chunk.toString().startsWith('POST')
      far.write(chunk)
    })
    far.on('data', (chunk: Buffer) => {
      if (!isMove || left <= 0) return near.write(chunk)
      left -= 1
      return near.destroy()
    })
    near.on('error', () => far.destroy()).on('close', () => far.destroy())
    far.on('error', () => near.destroy()).on('close', () => near.destroy())
  })
}

/** As `operator` does it, but by way of that one. */
async function operatorBy(way: net.Server, ...args: string[]): Promise<Outcome> {
  await once(way.listen(0, '127.0.0.1'), 'listening')
  const { port } = way.address() as AddressInfo
  const outcome = await cli.berth(['operator', ...args], { BERTH_URL: `http://127.0.0.1:${port}` })
  way.close()
  return outcome
}

const ALWAYS = Number.POSITIVE_INFINITY

const less = (amount: string, by: NanoUsd): string => formatUsdForPeople(nanoUsdOf(usd(amount) - by))

describe('accounts', () => {
  test('shows an account, changes it with a reason, suspends and resumes it', async () => {
    const { id, key } = await cli.server.account({ usd: '12.5' })
    const screen = await inTerminal('accounts', 'show', id)
    expect(screen).toContain('Balance          $12.50\n')
    expect(screen).toContain('Platform fee     none, not a supplier\n')
    expect(screen).toMatch(/^GPUs in use +256$/m)
    expect(screen).toContain('\nNo rentals yet.\n')
    expect(screen).toMatch(/balance\.purchase +\$12\.50\n +by \w+: for the test\n/)
    const change = ['--gpus', '16', '--api-keys', '3', '--platform-fee', '12.5', '--suspend', '--reason', 'disputed']
    const changed = await done('accounts', 'set', id, ...change)
    expect(changed).toMatch(/^Status +active → suspended$/m)
    expect(changed).toMatch(/^Platform fee +none, not a supplier → 12\.5%$/m)
    expect(changed).toMatch(/^GPUs in use +256 → 16 \(default: 256\)$/m)
    expect(changed).toMatch(/^API keys +100 → 3 \(default: 100\)$/m)
    expect(changed).not.toContain('Webhooks')
    expect(changed).toContain('Running machines continue and are charged')
    await waitFor('its key to be refused', async () => (await cli.berth(['balance', '--key', key])).code === 4)
    const back = ['accounts', 'set', id, '--resume', '--platform-fee', 'none', '--reason', 'settled']
    const handOver = ['machine', 'mock-fra-a6000-01', '--reason', 'a contract', '--supplier']
    await done(...handOver, id)
    expect(await refused(...back)).toContain(fail('still_a_supplier', { unpaid: undefined }).message)
    await done(...handOver, 'none')
    expect(await done(...back)).toMatch(/^Platform fee +12\.5% → none, not a supplier$/m)
    await waitFor('its key to work again', async () => (await cli.berth(['balance', '--key', key])).code === 0)
    expect(await done(...back)).toBe(`${id}: no change.\n`)
    const { quota, suspended } = (await show(id)) as Shown & { quota: object }
    expect({ quota, suspended }).toMatchObject({ quota: { gpus: 16, keys: 3, volumes: 100 }, suspended: false })
    expect(await refused('accounts', 'show', 'acc_nobody')).toContain('berth operator accounts ls')
  })
})

describe('money', () => {
  test('adjusts a balance exactly, once per key, never below zero', async () => {
    const { id } = await cli.server.account({ usd: '10' })
    const down = ['adjust', id, '5.50', '--down', '--reason', 'credited twice', '--idempotency-key', 'a1']
    expect(await done(...down)).toBe(`Adjusted the balance of ${id} by -$5.50: $10.00 → $4.50.\n`)
    expect(await done(...down)).toContain('no money was moved.')
    expect(await done('adjust', id, '1', '--up', '--reason', 'too much')).toContain('by $1.00: $4.50 → $5.50.')
    const error = await refused('adjust', id, '6', '--down', '--reason', 'too much')
    expect(error).toContain(fail('insufficient_balance', { amount: usd('6'), purpose: 'withdrawal' }).message)
    expect(error).toContain('To see the balance: berth operator accounts show')
    expect(error).not.toContain('An order needs')
    expect((await show(id)).availableUsd).toBe('5.500000000')
  })

  test('names the idempotency key when the outcome is unknown', async () => {
    const { id } = await cli.server.account({ usd: '10' })
    const credit = ['credit', id, '5', '--reason', 'bank transfer 7']
    const cut = await operatorBy(lineThatHangsUp(ALWAYS), ...credit)
    expect(cut).toMatchObject({ code: 3, out: '', error: expect.stringContaining('the connection was closed.\n') })
    const [, key = ''] =
      /^ {2}It may have been done\. To retry without doing it twice: berth operator credit .* --idempotency-key (\S+)$/m.exec(
        cut.error,
      ) ?? []
    expect((await show(id)).availableUsd).toBe('15.000000000')
    expect(await done(...credit, '--idempotency-key', key)).toContain('no money was moved. Available: $15.00')

    const create = ['accounts', 'create', '--name', 'Cut', '--owner-email', 'cut@example.test']
    const unknown = await operatorBy(lineThatHangsUp(ALWAYS), ...create)
    expect(unknown.error).toContain('It may have been done. To retry without doing it twice: ')
    expect(await done('accounts')).toMatch(/^acc_\S+ +Cut /m)

    // The second try of one command finds what the first has done.
    expect(await operatorBy(lineThatHangsUp(1), 'adjust', id, '2', '--down', '--reason', 'too much')).toEqual({
      code: 0,
      out: `Adjusted the balance of ${id} by -$2.00: $15.00 → $13.00.\n`,
      error: '',
    })
    const broken = http.createServer((_, response) => response.writeHead(500).end('<h1>Oh no</h1>'))
    const refund = ['refund', id, '1', '--rental', '1', '--reason', 'slow disk', '--idempotency-key', 'r1', '--json']
    const { error } = JSON.parse((await operatorBy(broken, ...refund)).error) as { error: unknown }
    expect(error).toMatchObject({
      status: 500,
      next: [expect.stringMatching(/ --idempotency-key r1$/), expect.any(String)],
    })
    expect(await refused(...refund.slice(0, -1))).not.toContain('may have been done')
    expect((await show(id)).availableUsd).toBe('13.000000000')
  })

  test('limits refunds to charges and payouts to earnings', async () => {
    const demo = async (...args: string[]): Promise<unknown> => cli.json(...args, '--key', cli.server.demoKey)
    await demo('rent', '--gpu', '4090', '--kind', 'container', '--image', 'debian:12', '--label', 'web', '--yes')
    await demo('terminate', 'web', '--yes')
    const supplier = await waitFor('a supplier to have earned', async () => {
      const { accounts } = (await cli.json('operator', 'accounts')) as {
        accounts: ReadonlyArray<{ id: string; earningsUsd: string }>
      }
      return accounts.find(({ earningsUsd }) => usd(earningsUsd) > 1n)?.id
    })
    const { availableUsd, rentals } = await waitFor('its money to be back', async () => {
      const account = await show('demo')
      return account.rentals[0]?.status === 'Terminated' && usd(account.heldUsd) === 0n && account
    })
    const rental = String(rentals[0]?.id)
    expect(await inTerminal('accounts', 'show', 'demo')).toMatch(
      new RegExp(`^ +${rental} +\\S+ +container +1 +Terminated +2`, 'm'),
    )
    const refund = ['refund', 'demo', '0.000000001', '--rental', rental, '--reason', 'slow disk']
    const [before, after] = [less(availableUsd, nanoUsdOf(0n)), less(availableUsd, nanoUsdOf(-1n))]
    expect(await done(...refund)).toBe(
      `Refunded <$0.0001 to demo: ${before} → ${after}.\nA supplier keeps its share.\n`,
    )
    expect(await refused('refund', 'demo', '50', '--rental', rental, '--reason', 'all of it')).toMatch(
      /At most <?\$0\.0/,
    )
    expect(await refused('refund', 'demo', '1', '--rental', '999', '--reason', 'all of it')).toContain(
      'berth operator rentals ls',
    )

    const { earningsUsd } = await show(supplier)
    expect(await refused('payout', supplier, '50', '--reason', 'too much')).toContain(
      'The unpaid earnings do not cover',
    )
    expect(await done('payout', supplier, '0.000000001', '--reason', 'a first part')).toBe(
      `Recorded a payout of <$0.0001 to ${supplier}. Unpaid: ${less(earningsUsd, nanoUsdOf(1n))}\n` +
        'Transfer the money itself at your bank.\n',
    )
    const rest = formatUsd(nanoUsdOf(usd(earningsUsd) - 1n))
    const { error } = await operatorBy(lineThatHangsUp(ALWAYS), 'payout', supplier, '--reason', 'for November')
    const [, amount = '', key = ''] = /payout \S+ (\S+) .* --idempotency-key (\S+)$/m.exec(error) ?? []
    expect(amount).toBe(rest)
    const again = ['payout', supplier, amount, '--reason', 'for November', '--idempotency-key', key]
    expect(await done(...again)).toContain('no money was moved.')
    expect(await refused('payout', supplier, '--reason', 'for November')).toContain('has no unpaid earnings')
    expect(await refused('payout', 'demo', '--reason', 'for November')).toContain('demo is not a supplier')
    expect((await show(supplier)).earningsUsd).toBe('0.000000000')
    expect((await cli.berth(['ledger', 'verify'])).code).toBe(0)
  })
})

interface Book {
  readonly gpus: ReadonlyArray<{ region: string; perGpuHourUsd: string; enabled: boolean; gpuCount: number }>
  readonly storage: ReadonlyArray<{ region: string; perGbHourUsd: string; enabled: boolean }>
  readonly reserveOptions: ReadonlyArray<{ accountId: string | null; discountPercentage: number }>
}

describe('prices', () => {
  const book = async (...which: string[]): Promise<Book> => (await cli.json('operator', 'prices', ...which)) as Book

  test('groups hundreds of rows in a few lines, or prints one per row on request', async () => {
    const { gpus, storage } = await book()
    const regions = new Set(gpus.map(({ region }) => region)).size
    const screen = await inTerminal('prices')
    expect(screen).toMatch(new RegExp(`^vm +h100 +ethernet +1 2 4 8 +\\$2\\.49 +${regions} regions$`, 'm'))
    expect(screen).toMatch(new RegExp(`^ +\\$0\\.0001 +${storage.length} regions$`, 'm'))
    expect(screen).toMatch(/^365 days +30% +all$/m)
    expect(screen).toContain(`\n${gpus.length} GPU prices. `)
    const wide = await inTerminal('prices', 'eu-north-2', 'h100', 'vm', '--wide')
    expect(wide.match(/^vm +h100 +(ethernet|infiniband) +[1248] +\$2\.[47]9 +eu-north-2$/gm)).toHaveLength(8)
    expect((await book('metal/b200')).gpus).toHaveLength(regions * 2)
    expect((await book('eu-north-2')).storage).toHaveLength(1)
    expect(await done('prices', 'vm', '64')).toBe('No rows match.\nTo list all of them: berth operator prices ls\n')
  })

  test('changes several at once, the last value wins, and nothing without confirmation', async () => {
    const { id } = await cli.server.account()
    const gpus = ['--gpu', 'h100/vm/ethernet=2.59', 'h100/vm/ethernet/eu-north-2/8=2.39', 'eu-north-2/b200=off']
    const others = ['--storage', 'eu-north-2=0.00012', '--term', `30/${id}=15`, '365=0']
    const args = ['prices', 'set', ...gpus, ...others, '--reason', 'autumn prices']
    const result = await cli.berth(['operator', ...args], {}, { answers: ['n'] })
    expect(result).toMatchObject({ code: 1, error: expect.stringContaining('Cancelled.') })
    const [, changes = ''] = /Save (\d+) changes\?/.exec(result.error) ?? []
    expect(result.out).toBe('')
    expect(result.error).toMatch(/^vm h100 ethernet, 1 2 4 8 GPUs, 28 regions +\$2\.49 +\$2\.59$/m)
    expect(result.error).toMatch(/^vm h100 ethernet, 8 GPUs, eu-north-2 +\$2\.49 +\$2\.39$/m)
    expect(result.error).toMatch(/^metal b200 infiniband, 8 GPUs, eu-north-2 +\$5\.29 +\$5\.29, off sale$/m)
    expect(result.error).toMatch(/^storage in eu-north-2 +\$0\.0001 +\$0\.00012$/m)
    expect(result.error).toMatch(new RegExp(`^30 days for ${id} +new +15% off$`, 'm'))
    expect(result.error).toMatch(/^365 days +30% off +removed$/m)
    expect((await operator(...args)).error).toContain('add --yes')
    expect((await book('h100', 'vm', 'ethernet')).gpus.every((row) => usd(row.perGpuHourUsd) === usd('2.49'))).toBe(
      true,
    )

    expect(await done(...args, '--yes')).toContain(`\nSaved ${changes} changes.\n`)
    expect((await book('h100/vm/ethernet/eu-north-2')).gpus.map((row) => usd(row.perGpuHourUsd))).toEqual(
      ['2.59', '2.59', '2.59', '2.39'].map(usd),
    )
    const { gpus: rows, storage, reserveOptions } = await book()
    expect(rows.filter(({ enabled }) => !enabled)).toHaveLength(10)
    expect(storage.filter((row) => usd(row.perGbHourUsd) === usd('0.00012'))).toMatchObject([{ region: 'eu-north-2' }])
    expect(reserveOptions.map(({ accountId, discountPercentage }) => [accountId, discountPercentage])).toEqual(
      expect.arrayContaining([[id, 15]]),
    )
    expect(reserveOptions).not.toContainEqual(expect.objectContaining({ termPeriodDays: 365 }))
    expect(await done(...args)).toBe('No change: the price book already has these prices.\n')
    expect(await done('log', '-n', '1')).toMatch(
      new RegExp(`price_book\\.change +${changes} prices\\n +by \\w+: autumn prices\\n`),
    )
  })

  test('shows the changes when output is redirected, and keeps a change that someone else made meanwhile', async () => {
    const h200 = async (): Promise<unknown> =>
      new Set((await book('h200', 'vm', 'ethernet')).gpus.map((row) => `${usd(row.perGpuHourUsd)} ${row.enabled}`))
    const set = (value: string, ...others: string[]): string[] => {
      const change = ['--gpu', `h200/vm/ethernet=${value}`, '--reason', 'autumn prices']
      return ['operator', 'prices', 'set', ...change, ...others]
    }
    const meanwhile = (value: string) => async (): Promise<string> => {
      expect((await cli.berth(set(value, '--yes'))).code).toBe(0)
      return 'y'
    }
    for (const [mine, theirs, outcome] of [
      ['3.09', 'off', `${usd('3.19')} false`],
      ['on', '3.29', `${usd('3.29')} false`],
      ['3.39', '3.31', `${usd('3.31')} false`],
    ] as const) {
      const { code, out, error } = await cli.berth(set(mine), {}, { answers: [meanwhile(theirs)] })
      expect({ code, out }).toEqual({ code: 1, out: '' })
      expect(error).toContain(
        'error: The price book has changed in the meantime.\n  Nothing was saved. Run the command again',
      )
      expect(await h200()).toEqual(new Set([outcome]))
    }
    // A change of other rows by someone else does not interfere.
    const elsewhere = async (): Promise<string> => {
      await done('prices', 'set', '--term', '90=19', '--reason', 'autumn prices', '--yes')
      return 'y'
    }
    const saved = await cli.berth(set('on', '--json'), {}, { answers: [elsewhere] })
    expect(saved.error).toMatch(/^vm h200 ethernet, .* +\$3\.31, off sale +\$3\.31$\n\n.*\nSave \d+ changes\?/m)
    expect(JSON.parse(saved.out)).toMatchObject({ gpus: expect.any(Array) })
    expect(await h200()).toEqual(new Set([`${usd('3.31')} true`]))
  })

  test('loads what --json prints and saves only differences; a new row needs all five keys', async () => {
    const now = await book()
    const file = path.join(cli.folder, 'prices.json')
    const [first, ...rest] = now.storage
    await writeFile(file, JSON.stringify({ ...now, storage: [{ ...first, enabled: false }, ...rest] }))
    const saved = await done('prices', 'set', '--file', file, '--reason', 'a region less', '--yes')
    expect(saved).toMatch(/^storage in \S+ +\$0\.0001 +\$0\.0001, off sale\n\n.*\nSaved 1 change\.$/m)
    await writeFile(file, JSON.stringify({ gpus: [{ machineType: 'vm' }] }))
    const wrong = await operator('prices', 'set', '--file', file, '--reason', 'a region less', '--yes')
    expect(wrong).toMatchObject({ code: 2, out: '', error: expect.stringMatching(/^ {2}gpus\.0\.region: /m) })

    const added = ['prices', 'set', '--gpu', 'vm/mock-region/h200/ethernet/3=3.09', '--reason', 'threes', '--yes']
    expect(await done(...added)).toMatch(/^vm h200 ethernet, 3 GPUs, mock-region +new +\$3\.09$/m)
    expect((await book('h200', '3')).gpus).toMatchObject([{ region: 'mock-region', gpuCount: 3, enabled: true }])
    const nobody = ['prices', 'set', '--term', '30/acc_nobody=15', '--reason', 'contract', '--yes']
    expect(await operator(...nobody)).toMatchObject({
      code: 1,
      error: expect.stringContaining('berth operator accounts ls'),
    })
  })
})

describe('the log', () => {
  test('shows who did what, when and why, in pages, with values before and after', async () => {
    const { id } = await cli.server.account({ usd: '3' })
    await done('accounts', 'set', id, '--gpus', '16', '--reason', 'a new\u001B[31m customer')
    const screen = await inTerminal('log', '--account', id, '--details')
    expect(screen).toMatch(
      /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ {2}account\.change +quota\n {4}by \w+: a new\\x1b\[31m customer$/m,
    )
    expect(screen).toMatch(/^ +changed quota gpus +16$/m)
    expect(screen).toMatch(/\n3 entries\n$/)
    const [first = '', ...others] = (await done('log', '-n', '1', '--account', id)).split('\n').toReversed().slice(1)
    expect(others.join(' ')).toContain('account.change')
    const [, next = ''] = /^There are more: berth operator (.*)$/.exec(first) ?? []
    expect(await done(...next.split(' '))).toMatch(/balance\.purchase +\$3\.00\n {4}by \w+: for the test\n/)
    expect(await cli.json('operator', 'log', '--account', id)).toMatchObject({
      records: [{ action: 'account.change' }, { action: 'balance.purchase' }, { action: 'account.create' }],
    })
    expect(await done('log')).toMatch(new RegExp(`^ {4}${id}, by \\w+: for the test$`, 'm'))
    expect(await done('log', '--account', 'acc_nobody')).toContain('No entries match.')
  })
})

test.each([
  [['accounts', 'set', 'demo', '--reason', 'why not'], 'No changes were given.'],
  [['accounts', 'set', 'demo', '--suspend'], "required option '--reason <text>' not specified"],
  [['accounts', 'set', 'demo', '--suspend', '--resume', '--reason', 'why'], 'cannot be used with'],
  [['accounts', 'set', 'demo', '--gpus', '1', '--reason', ' '], 'Must not be empty.'],
  [['accounts', 'set', 'demo', '--gpus', 'many', '--reason', 'why'], 'from 0 to 1000000.'],
  [['accounts', 'set', 'demo', '--platform-fee', '101', '--reason', 'why'], 'from 0 to 100'],
  [['adjust', 'demo', '5', '--reason', 'why'], 'Give the direction: --up or --down.'],
  [['adjust', 'demo', '-5', '--reason', 'why', '--up'], 'Must be an amount in USD above zero'],
  [['refund', 'demo', '5', '--reason', 'why'], "required option '--rental <id>' not specified"],
  [['payout', 'demo', '--reason', 'why', '--idempotency-key', 'p1'], 'With --idempotency-key, give the amount'],
  [['payout', '..', '--reason', 'why'], 'Not a valid value.'],
  [['prices', 'h1000'], '"h1000" matches no row of the price book.'],
  [['prices', 'vm', 'metal'], 'names a kind twice.'],
  [['prices', 'set', '--reason', 'why'], 'No price was given.'],
  [['prices', 'set', '--gpu', 'h100', '--reason', 'why'], 'Example: --gpu h100=2.49'],
  [['prices', 'set', '--gpu', 'h100=1001', '--reason', 'why'], '1001 is not a price up to 1000'],
  [['prices', 'set', '--gpu', 'h100/64=2', '--reason', 'why'], 'A new row needs all five'],
  [['prices', 'set', '--storage', 'here=0.1', '--reason', 'why'], 'here is not a region.'],
  [['prices', 'set', '--storage', 'all=0', '--reason', 'why'], '0 is not a price above zero'],
  [['prices', 'set', '--term', '0=10', '--reason', 'why'], 'a term has 1 to 3650 days.'],
  [['prices', 'set', '--term', '30=100', '--reason', 'why'], '100 is not a percentage below 100'],
  [['prices', 'set', '--file', '/nowhere', '--reason', 'why'], 'Cannot read /nowhere: there is no such file.'],
  [['prices', 'set', '--file', '/', '--reason', 'why'], 'Cannot read /: it is a directory.'],
  [['prices', 'set', '--file', '/nowhere', '--gpu', 'h100=2', '--reason', 'why'], 'cannot be used with'],
])('%j is wrong usage: exit code 2, and nothing on the output', async (args, message) => {
  const { code, out, error } = await operator(...args)
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(error).toContain(message)
})
