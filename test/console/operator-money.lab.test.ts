/** The operator's pages for accounts, money and prices, checked against the ledger. */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Locator, Page } from 'playwright-core'
import { formatUsd, sumUsd, usd } from '../../src/base/money.ts'
import { fail } from '../../src/contract/result.ts'
import { findingLabel } from '../../src/view/ledger.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { succeed } from '../harness/journey.ts'
import { testSshKey, type Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

describe.skipIf(whyNoBrowser() !== undefined)(`accounts, money and prices${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let operator: Call

  beforeAll(async () => {
    browser = await openBrowser()
    operator = browser.server.operator
  })
  afterAll(() => browser.close())

  test('an account is created, and money moves exactly as previewed', async () => {
    await browser.server.account({ platformFeePercentage: 12.5 })
    const { page, visit, look, close } = await browser.open(browser.server.operatorKey)
    await visit('/operator/accounts', 'Accounts')
    await page.getByRole('button', { name: 'Create account' }).click()
    const creating = page.getByRole('dialog')
    await creating.getByRole('button', { name: 'Create account' }).click()
    await creating.getByText('Must not be empty').waitFor()
    await creating.getByText('Must be an email address').waitFor()
    await creating.getByLabel('Name').fill('Harbour Labs')
    await creating.getByLabel('Owner’s email').fill('owner@harbour.example')
    await look('accounts-open')
    await creating.getByRole('button', { name: 'Create account' }).click()
    const key = await page.getByLabel('First API key').inputValue()
    const customer = browser.server.as(key)
    expect((await succeed(customer, 'GET', '/v2/users/me')).key.scopes).not.toContain('supply')
    await page.getByRole('link', { name: 'View account' }).click()
    await page.getByRole('heading', { level: 1, name: 'Harbour Labs' }).waitFor()

    await moveMoney(page, 'Add money', { 'Amount (USD)': '12,50' }, 'Add money')
    await page.getByText('Must be an amount in USD above zero').waitFor()
    await fill(page.getByRole('dialog'), { 'Amount (USD)': '25.000000001', Reason: 'bank transfer 4711' })
    await page.getByText('The available balance goes from $0.00 to $25.00.').waitFor()
    await look('account-credit')
    await expectDuring(page.getByText('Added $25.00 to Harbour Labs.'), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Add money' }).click(),
    )
    expect(await balanceOf(customer)).toBe('25.000000001')

    const down = { 'Amount (USD)': '30', Reason: 'booked twice' }
    await moveMoney(page, 'Adjust balance', { ...down, Direction: 'down' }, 'Adjust')
    await page.getByRole('alert').getByText('The balance does not cover $30.00').waitFor()
    await look('account-adjust-refused')
    expect(await balanceOf(customer)).toBe('25.000000001')
    await fill(page.getByRole('dialog'), { 'Amount (USD)': '5.000000001' })
    await expectDuring(page.getByText('Reduced the balance of Harbour Labs by $5.00'), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Adjust' }).click(),
    )
    expect(await balanceOf(customer)).toBe('20.000000000')

    const { rentalId, chargedUsd } = await rentAndEnd(customer)
    const row = page.getByRole('row').filter({ hasText: 'Terminated' })
    await row.getByRole('button', { name: `Refund rental ${rentalId}` }).click()
    await fill(page.getByRole('dialog'), { 'Amount (USD)': '19', Reason: 'a machine was slow' })
    await page.getByRole('dialog').getByRole('button', { name: 'Refund' }).click()
    await page.getByText(/At most \$\S+ can be refunded/).waitFor()
    await fill(page.getByRole('dialog'), { 'Amount (USD)': chargedUsd })
    await expectDuring(page.getByText(/^Refunded .* to Harbour Labs/), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Refund' }).click(),
    )
    expect(await balanceOf(customer)).toBe('20.000000000')
    await look('account')
    await close()
  })

  test('quota, fee and status of an account are changed with a reason', async () => {
    const { id, key } = await browser.server.account({ usd: '10' })
    const { page, visit, look, close } = await browser.open(browser.server.operatorKey)
    await visit(`/operator/accounts/${id}`, /^Test/)
    await page.getByRole('button', { name: 'Change quota' }).click()
    await page.getByLabel('GPUs in use').fill('4')
    await page.getByRole('button', { name: 'Save quota' }).click()
    await page.getByText('Enter a reason').waitFor()
    await page.getByLabel('Reason').fill('a new customer')
    await look('account-quota')
    await expectDuring(page.getByText(/^Changed the quota of Test/), () =>
      page.getByRole('button', { name: 'Save quota' }).click(),
    )
    await page.getByRole('button', { name: 'Make supplier' }).click()
    await fill(page.getByRole('dialog'), { 'Platform fee (%)': '12.5', Reason: 'has machines' })
    await page.getByRole('button', { name: 'Save fee' }).click()
    await page.getByText('12.5%', { exact: true }).waitFor()
    expect(await succeed(operator, 'GET', `/v2/operator/accounts/${id}`)).toMatchObject({
      quota: { gpus: 4, volumes: 100 },
      platformFeePercentage: 12.5,
    })
    await moveMoney(page, 'Pay out earnings', { 'Amount (USD)': '3', Reason: 'by bank' }, 'Record payout')
    await page.getByRole('alert').getByText('The unpaid earnings do not cover $3.00').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Suspend' }).click()
    await fill(page.getByRole('dialog'), { Reason: 'card charge disputed' })
    await page.getByRole('dialog').getByRole('button', { name: 'Suspend' }).click()
    await page.getByText('Its API keys are rejected', { exact: true }).waitFor()
    await waitFor('the key to be refused', async () => {
      return (await browser.server.as(key)('GET', '/v2/users/me')).status === 403
    })
    await page.goto('/operator/accounts?standing=suspended')
    const accounts = page.getByRole('table', { name: 'Accounts' }).getByRole('row')
    await waitFor('the suspended account alone', async () => (await accounts.count()) === 2)
    await page.getByLabel('Status').selectOption('')
    await page.getByLabel('Search by name or ID').fill('harbour')
    await page.getByRole('link', { name: 'Harbour Labs' }).waitFor()
    await page.waitForURL(/find=harbour/)
    await page.getByLabel('Search by name or ID').fill('')
    await look('accounts')
    await close()
  })

  test('prices are saved together, reach customers, and appear in the audit log', async () => {
    const { page, visit, look, close } = await browser.open(browser.server.operatorKey)
    await visit('/operator/prices', 'Prices')
    await page.getByLabel('Region', { exact: true }).selectOption('us-central-1')
    await page.getByLabel('GPU', { exact: true }).selectOption('h100')
    await page.getByLabel('Network', { exact: true }).selectOption('ethernet')
    await page.getByLabel('Machine', { exact: true }).selectOption('virtual-machine')
    await page.getByText('4 rows of 870').waitFor()
    await page.getByLabel('Price for all rows shown').fill('2.25')
    await page.getByRole('button', { name: 'Set for 4 rows' }).click()
    const one = page.getByLabel('Price of virtual-machine us-central-1 h100 ethernet 1', { exact: true })
    await one.fill('two')
    await page.getByText('Virtual machine, 1 × H100, Ethernet, us-central-1: Enter a price').waitFor()
    expect(await page.getByRole('button', { name: 'Save 4 changes' }).isDisabled()).toBe(true)
    await one.fill('2.49')
    await page.getByRole('button', { name: 'Save 3 changes' }).waitFor()
    await look('prices')
    await page.getByRole('tab', { name: 'Storage' }).click()
    await page.getByLabel('Price of storage in us-east-1').fill('0.0002')
    await look('prices-storage')
    await page.getByRole('tab', { name: 'Terms' }).click()
    await page.getByLabel('Days', { exact: true }).fill('180')
    await page.getByLabel('Discount (%)', { exact: true }).fill('22.5')
    await page.getByRole('button', { name: 'Add term' }).click()
    await look('prices-terms')
    await page.getByRole('button', { name: 'Save 5 changes' }).click()
    await page.getByRole('dialog').getByRole('cell', { name: '$0.0002' }).waitFor()
    await page.getByLabel('Reason').fill('autumn prices')
    await look('prices-save')
    await expectDuring(page.getByText('Saved 5 changes.'), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click(),
    )
    const book = await succeed(operator, 'GET', '/v2/operator/price-book')
    expect(book.reserveOptions).toContainEqual({ accountId: null, termPeriodDays: 180, discountPercentage: 22.5 })
    const options = (await succeed(browser.server.anonymous, 'GET', optionsPath)) as Array<Record<string, unknown>>
    const soldAt = options.filter(
      (one) =>
        one['region'] === 'us-central-1' &&
        one['gpuType'] === 'h100' &&
        one['connectionType'] === 'ethernet' &&
        one['machineType'] === 'virtual-machine',
    )
    expect(soldAt.map((one) => [one['gpuCount'], one['costPerHour']])).toEqual([
      [1, 2.49],
      [2, 4.5],
      [4, 9],
      [8, 18],
    ])

    await visit('/operator/audit', 'Audit')
    const entry = page.getByRole('row').filter({ hasText: 'autumn prices' })
    await entry.getByText('Changed the price book').waitFor()
    await look('audit')
    await entry.getByRole('button').click()
    await page.getByRole('dialog').getByText('$2.25').first().waitFor()
    await look('audit-entry')
    await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click()
    await page.getByRole('row').filter({ hasText: 'booked twice' }).getByRole('link').click()
    await page.getByRole('link', { name: 'Audit log' }).click()
    await page.waitForURL(/accountId=/)
    await entry.waitFor({ state: 'detached' })
    await page.getByText('bank transfer 4711').waitFor()
    await close()
  })

  test('the ledger and the engines are checked, and findings are shown', async () => {
    const { page, visit, look, close } = await browser.open(browser.server.operatorKey)
    await visit('/operator/ledger', 'Ledger')
    await page.getByRole('button', { name: 'Check the ledger' }).click()
    await page.getByText(/All \d+ checks passed/).waitFor()
    await page.getByText('All ledger accounts sum to zero').waitFor()
    await page.getByRole('button', { name: 'Check the engines' }).click()
    await page.getByText('1 engine checked, no differences.').waitFor()
    await look('ledger')
    // Only a manual change in the database can break the ledger.
    await sql`update machine set gpus_claimed = 1, gpus_free = gpus_free - 1
      where id = (select id from machine where gpus_claimed = 0 and gpus_free > 0 order by id limit 1)`.execute(
      browser.server.app.database.db,
    )
    await page.getByRole('region', { name: 'Ledger checks' }).getByRole('button', { name: 'Check again' }).click()
    await page.getByText('1 finding in').waitFor()
    const found = page.getByRole('table', { name: 'Findings' }).getByRole('row').last()
    expect(await found.textContent()).toContain(findingLabel('gpus_claimed_are_counted'))
    expect(await found.textContent()).toContain('1 recorded, 0 claimed')
    await look('ledger-wrong')
    await close()
  })

  test('every page fits a phone, and a customer’s key is refused with a reason', async () => {
    const narrow = await browser.open(browser.server.operatorKey, { width: 390, height: 800 })
    const { body } = await operator('GET', '/v2/operator/accounts?limit=1')
    const pages = [
      ['/operator/accounts', 'Accounts'],
      [`/operator/accounts/${body.accounts[0].id}`, body.accounts[0].name as string],
      ['/operator/prices', 'Prices'],
      ['/operator/audit', 'Audit'],
      ['/operator/ledger', 'Ledger'],
    ] as const
    for (const [path, heading] of pages) {
      await narrow.visit(path, heading)
      await narrow.page.getByRole('status', { name: 'Loading' }).waitFor({ state: 'detached' })
      expect([path, await narrow.page.evaluate(sidewaysPx)]).toEqual([path, 0])
    }
    await narrow.visit('/operator/prices', 'Prices')
    await narrow.look('prices-narrow')
    await narrow.close()

    const { page, visit, look, close } = await browser.open(browser.server.demoKey)
    for (const [path, heading] of [
      ['/operator/accounts', 'Accounts'],
      ['/operator/prices', 'Prices'],
      ['/operator/audit', 'Audit'],
    ] as const) {
      await visit(path, heading)
      await page
        .getByRole('alert')
        .getByText(fail('missing_scope', { scope: 'operator' }).message)
        .waitFor()
    }
    expect(await page.getByRole('navigation', { name: 'Console' }).getByText('Operator').count()).toBe(0)
    await look('audit-refused')
    await close()
  })
})

const optionsPath = '/v2/alpha/on-demand/rental-options'
/** How far the page can be scrolled horizontally, in pixels. */
const sidewaysPx = 'Math.max(0, document.documentElement.scrollWidth - innerWidth)'

async function moveMoney(
  page: Page,
  open: string,
  fields: Readonly<Record<string, string>>,
  action: string,
): Promise<void> {
  await page.getByRole('button', { name: open }).click()
  await fill(page.getByRole('dialog'), fields)
  await page.getByRole('dialog').getByRole('button', { name: action }).click()
}

async function fill(dialog: Locator, fields: Readonly<Record<string, string>>): Promise<void> {
  for (const [label, value] of Object.entries(fields)) {
    const field = dialog.getByLabel(label)
    if (label === 'Direction') await field.selectOption(value)
    else await field.fill(value)
  }
}

async function balanceOf(customer: Call): Promise<string> {
  return (await succeed(customer, 'GET', '/v2/customer/balance')).balanceUsd as string
}

/** A short rental and its exact cost. */
async function rentAndEnd(customer: Call): Promise<{ rentalId: number; chargedUsd: string }> {
  await succeed(customer, 'POST', '/v2/ssh-keys', { name: 'laptop', publicKey: testSshKey })
  const path = '/v2/alpha/on-demand/virtual-machine-rentals'
  const { id } = await succeed(customer, 'POST', path, { gpuCount: 1, region: 'mock-region' })
  const statusIs = (status: string) => async (): Promise<boolean> =>
    (await succeed(customer, 'GET', `/v2/alpha/on-demand/rentals/${id}`)).status === status
  await waitFor('it to run', statusIs('Running'))
  await succeed(customer, 'POST', `${path}/terminate`, { rentalId: id })
  await waitFor('it to be gone', statusIs('Terminated'))
  const { lines } = await succeed(customer, 'GET', '/v2/customer/statement')
  const charged = (lines as Array<{ kind: string; amountUsd: string }>).filter(({ kind }) => kind === 'charge')
  expect(charged).not.toHaveLength(0)
  const chargedUsd = formatUsd(sumUsd(charged.map(({ amountUsd }) => usd(amountUsd.replace('-', '')))))
  return { rentalId: id as number, chargedUsd }
}
