/** Usage and billing in a real browser, after a week of rentals and inference requests. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, DAY_MS, HOUR_MS, systemClock, type Clock } from '../../src/base/instant.ts'
import { formatUsdForPeople, usd } from '../../src/base/money.ts'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { serveModel } from '../harness/inference.ts'
import { succeed } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

const DAYS = 6

describe.skipIf(whyNoBrowser() !== undefined)(`usage and billing${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let account: { id: string; key: string; call: Call }
  let laptopKey: string
  let rentalId: number
  /** A running clock that can be advanced, to spread activity over several days. */
  let behindMs = DAYS * DAY_MS
  const clock: Clock = { now: () => addMs(systemClock.now(), -behindMs) }
  const models: Array<() => Promise<void>> = []

  beforeAll(async () => {
    browser = await openBrowser({ clock })
    const { server } = browser
    for (const [name, words] of [
      ['acme/large-chat', 1_800],
      ['acme/small-chat', 900],
    ] as const) {
      const prices = { inputUsdPerMillion: '100', outputUsdPerMillion: '1000' }
      const { upstream } = await serveModel(server, { name, model: prices, behaviour: { words } })
      models.push(() => upstream.close())
    }
    account = await server.account({ usd: '250' })
    const made = await succeed(account.call, 'POST', '/v2/api-keys', { name: 'laptop', scopes: ['inference'] })
    laptopKey = made.key
    rentalId = await spendAWeek()
  })
  afterAll(async () => {
    await browser.close()
    for (const close of models) await close()
  })

  async function chat(call: Call, model: string): Promise<void> {
    const messages = [{ role: 'user', content: 'Tell me about harbours.' }]
    await succeed(call, 'POST', '/v1/chat/completions', { model, messages, max_tokens: 4_000 })
  }

  /** Requests on every day, and a machine for two hours on two of them. Returns the last request. */
  async function spendAWeek(): Promise<number> {
    const laptop = browser.server.as(laptopKey)
    let rented = 0
    for (let day = 0; day <= DAYS; day += 1) {
      await chat(account.call, 'acme/large-chat')
      for (let n = 0; n < day % 3; n += 1) await chat(laptop, 'acme/small-chat')
      if (day === 2 || day === 4) rented = await rentForAWhile(`training run ${day}`)
      if (day < DAYS) behindMs -= day === 2 || day === 4 ? DAY_MS - 2 * HOUR_MS : DAY_MS
    }
    await waitFor('all requests to be in the ledger', async () => {
      const { rows } = await succeed(account.call, 'GET', '/v2/usage/summary?by=key')
      return rows.reduce((sum: number, row: { requests: number }) => sum + row.requests, 0) === 13
    })
    return rented
  }

  const base = '/v2/alpha/on-demand'

  async function rent(label: string): Promise<number> {
    const order = { gpuCount: 1, region: 'mock-region', label }
    const { id } = await succeed(account.call, 'POST', `${base}/virtual-machine-rentals`, order)
    await waitFor('the machine runs', async () => {
      const { status } = await succeed(account.call, 'GET', `${base}/rentals/${id}`)
      return status === 'Running'
    })
    return id
  }

  async function rentForAWhile(label: string): Promise<number> {
    const id = await rent(label)
    behindMs -= 2 * HOUR_MS
    await succeed(account.call, 'POST', `${base}/virtual-machine-rentals/terminate`, { rentalId: id })
    return id
  }

  test('shows usage by day, model and key, as chart and table', async () => {
    const { page, visit, look, close } = await browser.open(account.key)
    await visit('/usage', 'Usage')
    const summary = await succeed(account.call, 'GET', '/v2/usage/summary')
    const total = formatUsdForPeople(usd(summary.totalUsd))
    await page.getByText(total, { exact: true }).first().waitFor()
    await page.getByRole('definition').filter({ hasText: /^13$/ }).waitFor()
    expect(await page.getByRole('button', { name: '30 days' }).getAttribute('aria-pressed')).toBe('true')
    await look('usage')

    // By keyboard: the newest bar gets focus first, arrows move to earlier days.
    const bars = page.getByRole('group', { name: 'Spend by day' }).getByRole('button')
    expect(await bars.count()).toBe(30)
    const today = await page.getByLabel('To', { exact: true }).inputValue()
    await bars.last().focus()
    await page.keyboard.press('ArrowLeft')
    const yesterday = new Date(Date.parse(today) - DAY_MS).toISOString().slice(0, 10)
    const cost = summary.rows.find((row: { group: string }) => row.group === yesterday).costUsd
    const focused = await page.locator(':focus').getAttribute('aria-label')
    expect(focused).toContain(`: ${formatUsdForPeople(usd(cost))}, `)
    await page.getByRole('button', { name: 'Show as table' }).click()
    const table = page.getByRole('table', { name: 'Spend by day' })
    expect(await table.getByRole('row').count()).toBe(1 + 30)

    await page.getByRole('button', { name: '7 days' }).click()
    await page.getByRole('tab', { name: 'By model' }).click()
    await page.getByRole('table', { name: 'Spend by model' }).getByText('acme/large-chat').waitFor()
    await page.getByRole('group', { name: 'Daily spend by model' }).getByRole('button').last().focus()
    await look('usage-by-model')
    await page.getByRole('tab', { name: 'By key' }).click()
    await page.getByRole('table', { name: 'Spend by key' }).getByText('laptop').waitFor()
    await page.getByRole('tab', { name: 'By rental' }).click()
    await page.getByRole('table', { name: 'Spend by rental' }).getByText('training run 4').waitFor()
    await look('usage-by-rental')
    await page.waitForURL(/by=rental/)
    await page.reload()
    const link = page.getByRole('link', { name: 'training run 4' })
    await link.waitFor()
    expect(await link.getAttribute('href')).toBe(`/rentals/${rentalId}`)

    await page.getByLabel('From').fill('2026-01-01')
    await page.getByLabel('To', { exact: true }).fill('2025-12-01')
    await page.getByText('The first day must not be after the last').waitFor()
    await close()
  })

  test('shows the balance, the statement and invoices', async () => {
    const { page, context, visit, look, close } = await browser.open(account.key)
    await visit('/billing', 'Billing')
    const days = page.getByRole('table', { name: 'Statement' })
    await days.getByText('+$250.00').waitFor()
    // One line, however often the meter charged it that day.
    expect(await days.getByRole('link', { name: /training run 4/ }).count()).toBe(1)
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download CSV' }).click(),
    ])
    expect(await readFile(await file.path(), 'utf8')).toContain('training run 4')
    await look('billing-statement')
    await page.getByRole('tab', { name: 'All changes' }).click()
    const statement = page.getByRole('table', { name: 'All changes' })
    await statement.getByRole('link', { name: 'training run 4' }).first().waitFor()
    await page.getByText('No current spend').waitFor()
    await rent('left running')
    await page.getByText(/^Lasts 3 days(?: \d+ hours?)?, until /).waitFor()
    expect(await page.getByLabel('Account ID').inputValue()).toBe(account.id)
    await look('billing')
    // Money that the operator adds appears without a reload.
    const credit = { amountUsd: '40', kind: 'credit', reason: 'for your patience' }
    await succeed(browser.server.operator, 'POST', `/v2/operator/accounts/${account.id}/credit`, credit)
    await statement.getByText('for your patience').waitFor()

    await page.getByRole('tab', { name: 'Invoices' }).click()
    await page
      .getByRole('button', { name: /^Show / })
      .first()
      .click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('table', { name: 'Charges' }).getByText('Inference, acme/large-chat').waitFor()
    await look('billing-invoice')
    const [printed] = await Promise.all([
      context.waitForEvent('page'),
      dialog.getByRole('link', { name: 'Open printable page' }).click(),
    ])
    await printed.getByText('acme/large-chat').first().waitFor()
    await printed.close()
    await dialog.getByRole('button', { name: 'Close' }).last().click()
    await page.getByRole('tab', { name: 'Purchases' }).click()
    await page.getByRole('table', { name: 'Purchases' }).getByText('+$250.00').waitFor()
    await look('billing-purchases')
    await close()
  })

  test('shows costs by kind, resource and label, with a forecast', async () => {
    const { page, visit, look, close } = await browser.open(account.key)
    await visit('/costs', 'Costs')
    const costs = await succeed(account.call, 'GET', '/v2/usage/costs')
    await page
      .getByText(formatUsdForPeople(usd(costs.totalUsd)), { exact: true })
      .first()
      .waitFor()
    const table = page.getByRole('table', { name: 'Costs by kind' })
    await table.getByRole('row', { name: /^Machines/ }).waitFor()
    await table.getByRole('row', { name: /^Models/ }).waitFor()
    await page.getByText('Forecast for the month').waitFor()
    expect(await table.getByRole('row').count()).toBe(1 + 2)
    await page.getByRole('group', { name: 'Daily costs by kind' }).getByRole('button').last().focus()
    await look('costs')
    await page.getByRole('tab', { name: 'By resource' }).click()
    await page.getByRole('table', { name: 'Costs by resource' }).getByRole('link', { name: 'training run 4' }).waitFor()
    await look('costs-by-resource')
    await close()
  })

  test('a budget that is used up shows in its list, in a banner and behind the bell', async () => {
    const { page, visit, look, close } = await browser.open(account.key)
    await visit('/billing?tab=budgets', 'Billing')
    await page.getByText('No budgets yet').waitFor()
    await page.getByRole('button', { name: 'Add budget' }).click()
    await page.getByLabel('Name').fill('Research')
    await page.getByLabel('Monthly amount (USD)').fill('0.01')
    await page.getByLabel('At 100%').selectOption('block')
    await page.getByRole('dialog').getByRole('button', { name: 'Add budget' }).click()
    await page.getByRole('table', { name: 'Budgets' }).getByText('Blocking').waitFor()
    await page.getByText('The budget “Research” is used up').waitFor()
    await page.getByRole('button', { name: /^Notifications, \d+ unread$/ }).click()
    const latest = page.getByRole('region', { name: 'Latest notifications' })
    await latest.getByRole('link', { name: /Budget “Research” exceeded/ }).waitFor()
    await look('billing-budgets')
    await latest.getByRole('link', { name: 'All notifications' }).click()
    await page.getByRole('table', { name: 'Notifications' }).getByText('is spent this month').first().waitFor()
    await look('notifications')
    await page.getByRole('button', { name: 'Mark all as read' }).click()
    await page.getByRole('button', { name: 'Notifications', exact: true }).waitFor()
    await page.getByRole('tab', { name: 'Settings' }).click()
    await page.getByLabel('Rental failed by e-mail').uncheck()
    await look('notification-settings')

    await visit('/billing?tab=budgets', 'Billing')
    await page.getByRole('button', { name: 'Change Research' }).click()
    await page.getByLabel('Monthly amount (USD)').fill('9000')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('table', { name: 'Budgets' }).getByText('OK').waitFor()
    await page.getByText('The budget “Research” is used up').waitFor({ state: 'detached' })
    const { choices } = await succeed(account.call, 'GET', '/v2/users/me/notifications')
    expect(choices).toContainEqual(expect.objectContaining({ kind: 'rental_failed', console: true, email: false }))
    await close()
  })

  test('shows empty states to a new account, and fits a phone', async () => {
    const telephone = { width: 390, height: 844 }
    const { key } = await browser.server.account()
    const { page, visit, look, close } = await browser.open(key, telephone)
    await visit('/usage', 'Usage')
    await page.getByText('No spend on these days').waitFor()
    await look('usage-empty')
    await visit('/billing', 'Billing')
    await page.getByText('No transactions this month').waitFor()
    await look('billing-empty')
    await page.getByRole('tab', { name: 'Invoices' }).click()
    await page.getByText('No invoices yet').waitFor()
    await close()

    const used = await browser.open(account.key, telephone)
    await used.visit('/billing', 'Billing')
    await used.page.getByRole('table', { name: 'Statement' }).waitFor()
    expect(await used.page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    await used.visit('/usage', 'Usage')
    await used.page.getByRole('group', { name: 'Spend by day' }).getByRole('button').last().focus()
    expect(await used.page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    await used.look('usage-telephone')
    await used.close()
  })
})
