/** Statement, invoices, request log, account and ended rentals on the command line. */
import { fail } from '../../contract/result.ts'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { serveModel, type TestModel } from '../../../test/harness/inference.ts'
import { waitFor, waitForDayWithTimeLeft } from '../../../test/harness/wait.ts'
import { sumUsd, usd } from '../../base/money.ts'
import { money } from '../../view/money.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let model: TestModel
let account: { readonly id: string; readonly key: string }
/** Cost of the ended machines, as printed when they ended. */
let bills: ReadonlyArray<{ readonly name: string; readonly costSoFarUsd: string }>

const done = async (...args: string[]): Promise<string> => {
  const { code, out, error } = await cli.berth(args, { BERTH_KEY: account.key })
  expect({ code, error }).toEqual({ code: 0, error: '' })
  return out
}

const json = async (...args: string[]) => JSON.parse(await done(...args, '--json'))

beforeAll(async () => {
  // At the end of a month there would soon be two invoices.
  await waitForDayWithTimeLeft()
  cli = await startCliTest()
  model = await serveModel(cli.server)
  account = await cli.server.account({ usd: '1000' })
  const ledger = `/v2/operator/accounts/${account.id}`
  await cli.server.operator('POST', `${ledger}/credit`, { amountUsd: '12.50', kind: 'credit', reason: 'a gift' })
  await cli.server.operator('POST', `${ledger}/adjust`, { amountUsd: '-2.50', reason: 'a correction' })
  await done('rent', '--kind', 'container', '--gpu', '4090', '--count', '1', '--label', 'web \u001B[31m', '--yes')
  await done('rent', '--kind', 'vm', '--gpu', 'h100', '--count', '1', '--label', 'box', '--yes')
  bills = await json('terminate', 'web \u001B[31m', 'box', '--yes')
  await waitFor('both to have ended', async () => (await json('ls', '--ended')).rentals.length === 2)
})
afterAll(async () => {
  await model.upstream.close()
  await cli.close()
})

const inTerminal = (...args: string[]): Promise<string> => cli.onScreen(args, { BERTH_KEY: account.key })

describe('money', () => {
  test('the statement lists signed amounts with running balances, in pages', async () => {
    const out = await done('statement')
    const [head = '', ...lines] = out.split('\n')
    expect(head).toMatch(/^TIME \(UTC\) +DESCRIPTION +AMOUNT +BALANCE$/)
    const rows = lines.slice(0, lines.indexOf('')).map((line) => line.replaceAll(/  +/g, ' | '))
    // Charged in more than one line where the meter has passed meanwhile.
    const charges = rows.slice(0, -3)
    const [dear, cheap] = ['virtual machine \\S+ \\(1 × h100\\)', 'container \\S+ \\(1 × NVIDIA-GeForce-RTX-4090\\)']
    const charge = new RegExp(
      `^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d \\| (${dear}|${cheap}) \\| >?-\\$0\\.\\d+ \\| \\$1,0(?:10\\.00|09\\.9\\d)$`,
    )
    expect(charges.filter((line) => !charge.test(line))).toEqual([])
    for (const one of [dear, cheap]) expect(charges.join('\n')).toMatch(new RegExp(one))
    expect(rows.slice(-3)).toEqual([
      expect.stringMatching(/ \| Adjustment: a correction \| -\$2\.50 \| \$1,010\.00$/),
      expect.stringMatching(/ \| Credit: a gift \| \+\$12\.50 \| \$1,012\.50$/),
      expect.stringMatching(/ \| Purchase: for the test \| \+\$1,000\.00 \| \$1,000\.00$/),
    ])
    expect(out.endsWith(`\n\n${rows.length} lines\n`)).toBe(true)
    await inTerminal('statement')
    const size = rows.length - 2
    const first = await done('statement', '--limit', `${size}`)
    const more = new RegExp(`\\nThere are more: berth statement --limit ${size} --cursor (\\S+)\\n$`)
    const [, cursor = ''] = more.exec(first) ?? []
    expect(await done('statement', '--limit', `${size}`, '--cursor', cursor)).toMatch(
      /a gift.*\n.*for the test.*\n\n2 lines\n$/,
    )
    const days = await done('billing', 'statement')
    expect(days).toMatch(/^DAY +DESCRIPTION +AMOUNT +BALANCE\n/)
    expect(days).toMatch(/Virtual machine \S+ “box” +>?-\$/)
    const file = path.join(cli.folder, 'statement.csv')
    expect(await done('billing', 'export', '-o', file)).toMatch(/^Saved \d+ lines to /)
    const { closingBalanceUsd } = await json('billing', 'statement')
    expect((await readFile(file, 'utf8')).trimEnd().split('\r\n').at(-1)).toMatch(
      new RegExp(`,closing_balance,Closing balance,+${closingBalanceUsd}$`),
    )
    const { lines: postings } = await json('statement')
    const charged = (postings as Array<{ kind: string; amountUsd: string }>).filter(({ kind }) => kind === 'charge')
    const sum = sumUsd(charged.map(({ amountUsd }) => usd(amountUsd.replace(/^-/, ''))))
    expect(sum).toBe(sumUsd(bills.map(({ costSoFarUsd }) => usd(costSoFarUsd))))
  })

  test('purchases and credits', async () => {
    const out = await done('purchases')
    expect(out).toMatch(/^\d{4}-\S+ \S+Z +\+\$12\.50 +Credit\n\d{4}-\S+ \S+Z +\+\$1,000\.00 +Purchase\n/m)
    expect(out).toMatch(/\n\n2 payments\. .* berth statement --json\n$/)
    expect(await json('purchases')).toMatchObject({ purchase_history: [{ amount: '1250' }, { amount: '100000' }] })
  })

  test('invoices by month or number, and as a page', async () => {
    const { invoices } = await json('invoices')
    const [{ month, number, chargesUsd }] = invoices
    expect(await done('invoices')).toMatch(
      new RegExp(`^MONTH +NUMBER +STATUS +CHARGES\n${month} +${number} +open +\\${money(chargesUsd)}\n\n1 invoice\\. `),
    )
    const output = await done('invoices', 'show', month)
    expect(await done('invoices', 'show', number)).toBe(output)
    expect(output).toContain(`Invoice          ${number}\n`)
    expect(output).toMatch(
      /^Issued +not yet: the month is not over\nOpening balance +\$0\.00\nPayments +\$1,010\.00\nCharges +\$0\./m,
    )
    expect(output).toMatch(/^Virtual machine \S+ “box” \(rental \d+\), .* 0\.\d{4} hours +\$2\.49 +<?\$0\.\d+$/m)
    expect(output).toMatch(/^Adjustment – a correction +\d{4}-\d\d-\d\d +-\$2\.50$/m)
    await inTerminal('invoices', 'show', month)
    expect(await json('invoices', 'show', month)).toMatchObject({ number, chargesUsd })
    const none = await cli.berth(['invoices', 'show', '2020-01'], { BERTH_KEY: account.key })
    expect(none).toMatchObject({
      code: 1,
      error: expect.stringContaining('There is no invoice for 2020-01.\n  To list them: berth invoices ls'),
    })
    const others = await cli.berth(['invoices', 'show', `B-other-${month}`], { BERTH_KEY: account.key })
    expect(others).toMatchObject({ code: 1, error: expect.stringContaining(`There is no invoice B-other-${month}.`) })
    const file = path.join(cli.folder, 'invoice.html')
    expect(await done('invoices', 'save', month, '-o', file)).toContain(`Saved ${number} to ${file}.\n`)
    expect(await readFile(file, 'utf8')).toContain(`<title>Invoice ${number}</title>`)
    const twice = await cli.berth(['invoices', 'save', month, '-o', file], { BERTH_KEY: account.key })
    expect(twice).toMatchObject({ code: 1, error: expect.stringContaining('already exists.') })
  })

  test('an account without entries gets a next step', async () => {
    const { key } = await cli.server.account()
    const empty = async (...args: string[]): Promise<string> => (await cli.berth([...args, '--key', key])).out
    expect(await empty('statement')).toContain(
      'The balance has not changed yet.\nThe operator adds money to your account id: berth account',
    )
    expect(await empty('purchases')).toContain('There are no payments.\nThe operator adds')
    expect(await empty('invoices')).toContain('There are no invoices.\n')
    expect(await empty('requests')).toBe(
      'There were no inference requests in the last 30 days.\nTo send one: berth chat "Hello"\n',
    )
    expect(await empty('ls', '--ended')).toBe('No machine has ended yet.\nTo list your machines: berth ls\n')
  })
})

describe('requests', () => {
  test('are listed with outcomes; texts are stored once enabled', async () => {
    const ask = async (prompt: string): Promise<string> => (await json('chat', prompt)).requestId
    const plain = await ask('Hello')
    expect(await done('account')).toMatch(/^Bodies +not stored\n\nTo store bodies: berth account keep-bodies on$/m)
    expect(await done('account', 'keep-bodies', 'on')).toContain('now stored for 7 days.\n')
    expect(await json('account')).toMatchObject({ account: { id: account.id, keepsBodies: true } })
    const withBodies = await waitFor('a request with its texts', async () => {
      const id = await ask('What is a berth?')
      const request = await waitFor('it to be in the log', async () => {
        const { code, out } = await cli.berth(['requests', 'show', id, '--json'], { BERTH_KEY: account.key })
        return code === 0 && (JSON.parse(out) as { requestBody: string | null })
      })
      return request.requestBody !== null && id
    })
    model.upstream.behaviour.fault = { kind: 'status', status: 500 }
    await cli.berth(['chat', 'Hello'], { BERTH_KEY: account.key })
    model.upstream.behaviour.fault = undefined
    const failed = await waitFor('the failed one to be in the log', async () => {
      const { requests } = await json('requests', '--outcome', 'failed', '--model', 'test/model', '--since', '1h')
      return requests.length > 0 && requests[0].requestId
    })
    const out = await done('requests')
    expect(out).toMatch(new RegExp(`^${plain} +\\d+[sm] +test/model +answered +<?\\$0\\.0+\\d+$`, 'm'))
    expect(out).toMatch(new RegExp(`^${failed} +\\d+[sm] +test/model +failed +\\$0\\.00$`, 'm'))
    expect(await inTerminal('requests')).toContain(plain)
    expect(await done('requests', '--wide')).toMatch(
      new RegExp(`^${plain} .* Chat +\\d+ in, \\d+ out +\\d.* m?s +\\w+ +\\d{4}-`, 'm'),
    )
    const more = await done('requests', '-n', '1', '--outcome', 'answered')
    const [, next = ''] =
      /\nThere are more: berth (requests ls --outcome answered --limit 1 --cursor \S+)\n$/.exec(more) ?? []
    expect(await done(...next.split(' '))).toMatch(/^req_\w+ .* answered /m)
    expect(await done('requests', '--model', 'none/such')).toContain('No requests match.\n')

    const output = await done('requests', 'show', withBodies)
    expect(output).toMatch(
      /^Protocol +Chat(, streamed)?\nOutcome +Answered\nHTTP status +200\nUsage +\d+ in, \d+ out\nFirst byte +after /m,
    )
    expect(output).toMatch(/\nRequest body\n\{[^]*"content": "What is a berth\?"[^]*\nResponse body\n/)
    expect(await done('requests', 'show', plain)).toContain('Its bodies were not stored')
    expect(await done('requests', 'show', failed)).toMatch(
      /^Outcome +Failed, not charged\nReason +\S+\nHTTP status +50\d$/m,
    )
    expect(await done('account', 'keep-bodies', 'off')).toContain('Bodies are no longer stored.')
    expect(await done('requests', 'show', plain)).toContain(
      'To store them from now on:\n  berth account keep-bodies on\n',
    )
    const none = await cli.berth(['requests', 'show', 'req_none'], { BERTH_KEY: account.key })
    expect(none).toMatchObject({
      code: 1,
      error: expect.stringContaining('To list them: berth requests ls'),
    })
  })
})

describe('account', () => {
  test('shows owner and status; only owners change settings', async () => {
    const out = await done('account')
    expect(out).toMatch(
      new RegExp(
        `^Account +Test 1\\nId +${account.id}; .*\\nStatus +active\\nCreated +\\d{4}-\\d\\d-\\d\\d\\nYou +owner-1@example\\.test, owner\\nAPI key +\\w+ "`,
      ),
    )
    await inTerminal('account')
    const { id } = await json('members', 'add', 'second@example.test', '--role', 'member')
    const { key } = await json('keys', 'create', 'looks', '--scope', 'keys', '--for', id)
    const refused = await cli.berth(['account', 'keep-bodies', 'on', '--key', key])
    expect(refused).toMatchObject({
      code: 4,
      error: expect.stringContaining(fail('owner_only', { action: 'change its settings' }).message),
    })
  })

  test('lists ended machines with their cost, without control sequences', async () => {
    const out = await done('ls', '--ended')
    expect(out).toMatch(/^ +\d+ +web \\x1b\[31m +container +\d{4}-\S+ \S+Z +Terminated on request$/m)
    expect(out).toMatch(/^ +\d+ +box +vm +\d{4}-\S+ \S+Z +Terminated on request$/m)
    expect(out).toMatch(/\n\n2 ended machines\. With costs: berth ls --ended --wide\n$/)
    await inTerminal('ls', '--ended')
    const wide = await done('ls', '--ended', '--wide')
    expect(wide).toMatch(
      new RegExp(
        ` web .* 1 × RTX 4090 +\\d+ (?:second|minute)s? +${money(bills[0]?.costSoFarUsd ?? '').replace('$', '\\$')}$`,
        'm',
      ),
    )
    expect(wide).toMatch(
      new RegExp(
        ` box .* 1 × H100 +\\d+ (?:second|minute)s? +${money(bills[1]?.costSoFarUsd ?? '').replace('$', '\\$')}$`,
        'm',
      ),
    )
    expect(await json('ls', '--ended', '--wide')).toMatchObject({ rentals: [{}, {}] })
    const first = await done('ls', '--ended', '-n', '1')
    const [, next = ''] = /\nThere are more: berth (ls --ended --limit 1 --cursor \S+)\n$/.exec(first) ?? []
    const second = await done(...next.split(' '))
    expect(new Set([first, second].map((text) => /box|web/.exec(text)?.[0]))).toEqual(new Set(['box', 'web']))
  })

  test('shows volume prices by region without a key', async () => {
    const { code, out } = await cli.berth(['volumes', 'prices', '--size', '1024'], { BERTH_DATA_DIR: '/nowhere' })
    expect(code).toBe(0)
    // 1,024 GB at a tenth of a thousandth of a dollar.
    expect(out).toMatch(/^us-central-1 +\$0\.0001 +\$0\.1024 +(unknown|[\d,]+)$/m)
    expect(out).toMatch(/ regions\. \$\/HR is for 1024 GB\./)
    await inTerminal('volumes', 'prices')
    expect(await json('volumes', 'prices')).toEqual(
      (await cli.server.anonymous('GET', '/v2/alpha/on-demand/storage-options')).body,
    )
  })

  test.each([
    [['statement', '--limit', '0'], 'from 1 to 1000.'],
    [['invoices', 'show', '2026-13'], 'Must be a month such as 2026-11'],
    [['requests', '--since', 'yesterday'], 'Must be a time such as 24h'],
    [['requests', '--outcome', 'good'], 'Allowed choices are answered, cut, broken, failed'],
    [['account', 'keep-bodies', 'maybe'], 'Allowed choices are on, off'],
    [['ls', '--limit', '5'], '--limit and --cursor need --ended.'],
    [['volumes', 'prices', '--size', '300'], 'in steps of 256.'],
  ])('%j is wrong usage: exit code 2, and nothing on the output', async (args, message) => {
    const { code, out, error } = await cli.berth(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain(message)
  })
})

describe('costs, budgets and notifications', () => {
  test('costs are grouped, and a forecast follows', async () => {
    const out = await done('billing', 'costs', '--by', 'label')
    expect(out).toMatch(/^LABEL +COST\n/)
    expect(out).toMatch(/box +<?\$0\./)
    expect(out).toMatch(/Forecast for \d{4}-\d\d: \$/)
    const { totalUsd, groups } = await json('billing', 'costs')
    expect(sumUsd(groups.map(({ costUsd }: { costUsd: string }) => usd(costUsd)))).toBe(usd(totalUsd))
  })

  test('a budget is added, blocks, is raised and deleted', async () => {
    expect(await done('budgets', 'ls')).toMatch(/^There are no budgets\.\nTo add one: berth budgets create /)
    const added = await done('budgets', 'create', 'Research', '--monthly', '0.000000001', '--action', 'block')
    expect(added).toMatch(/^Created Research: <\$0\.0001 per month, /)
    await waitFor('the budget to block', async () => /blocking/.test(await done('budgets', 'ls')))
    const order = ['rent', '--kind', 'container', '--gpu', '4090', '--count', '1', '--yes']
    const refused = await cli.berth(order, { BERTH_KEY: account.key })
    expect(refused.error).toContain('The budget “Research”')
    expect(refused.error).toContain('berth budgets set')
    expect(await done('notifications', 'ls')).toMatch(/• Budget “Research” exceeded/)
    expect(await done('notifications', 'read')).toBe('Everything is read.\n')
    expect(await done('notifications', 'ls', '--unread')).toBe('Nothing unread.\n')
    expect(await done('budgets', 'set', 'Research', '--monthly', '5000')).toMatch(/^Research: .* spent\.\n$/)
    expect(await done('budgets', 'rm', 'Research')).toBe('Deleted Research.\n')
  })

  test('a member chooses what comes by e-mail', async () => {
    expect(await done('notifications', 'set', 'rental_failed', '--email', 'off')).toMatch(/email off/)
    expect(await done('notifications', 'channels')).toMatch(/rental_failed +Rental failed +yes +no\n/)
  })

  test('the operator sees that no mail server is configured', async () => {
    const { out } = await cli.berth(['operator', 'mail', 'status'])
    expect(out).toContain('BERTH_SMTP_URL')
    const sent = await cli.berth(['operator', 'mail', 'test', 'ops@example.com'])
    expect(sent.code).not.toBe(0)
    expect(sent.error).toContain('cannot send e-mail')
  })
})
