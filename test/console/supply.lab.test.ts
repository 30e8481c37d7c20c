/** Supplier pages: join a machine, price it, take it off sale, see its earnings. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseSimulated } from '../../src/agent/gpu-source.ts'
import { addMs, DAY_MS, HOUR_MS, systemClock } from '../../src/base/instant.ts'
import { usd } from '../../src/base/money.ts'
import type { HostOffer } from '../../src/contract/agent.ts'
import { HEARTBEAT_MS } from '../../src/domain/host.ts'
import { money } from '../../src/view/money.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { TestAgent, testOffer } from '../harness/host-sockets.ts'
import { succeed } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

const offer: HostOffer = { ...testOffer, clusterName: 'harbour', region: 'eu-north' }
/** How far the page can be scrolled horizontally, in pixels. */
const sidewaysPx = 'Math.max(0, document.documentElement.scrollWidth - innerWidth)'
const stops: Array<() => Promise<void> | void> = []

describe.skipIf(whyNoBrowser() !== undefined)(`supplying machines${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let supplier: { id: string; key: string; call: Call }
  let customer: { id: string; key: string; call: Call }
  /** Earnings need several days: the server's clock starts some days ago and reaches today before the browser opens. */
  let behindMs = 3 * DAY_MS

  beforeAll(async () => {
    const clock = { now: () => addMs(systemClock.now(), -behindMs) }
    browser = await openBrowser({ clock, env: { BERTH_DRIVERS: 'mock,host' } })
    supplier = await browser.server.account({ platformFeePercentage: 15 })
    customer = await browser.server.account({ usd: '1000' })
  })
  afterAll(async () => {
    for (const stop of stops) await stop()
    await browser.close()
  })

  test('earnings by day and machine match the ledger', async () => {
    const { server } = browser
    for (const hours of [5, 9, 3]) {
      await earn(server.operator, supplier.id, customer.call, () => (behindMs -= hours * HOUR_MS))
      behindMs -= DAY_MS - hours * HOUR_MS
    }
    behindMs = 0
    const earned = await succeed(supplier.call, 'GET', '/v2/supply/earnings')
    expect(usd(earned.unpaidUsd)).toBeGreaterThan(usd('1'))
    await succeed(server.operator, 'POST', `/v2/operator/accounts/${supplier.id}/payout`, {
      amountUsd: '1',
      reason: 'bank transfer',
    })
    const { unpaidUsd } = await succeed(supplier.call, 'GET', '/v2/supply/earnings')
    const { page, visit, look, close } = await browser.open(supplier.key)
    await visit('/supply/earnings', 'Earnings')
    await page
      .getByText(money(unpaidUsd as string))
      .first()
      .waitFor()
    await page.getByText('Platform fee: 15%').waitFor()
    await page.getByText('$1.00', { exact: true }).waitFor()
    await look('earnings')
    await page.getByRole('button', { name: 'Show as table' }).click()
    const days = page.getByRole('table', { name: 'Earnings by day' })
    for (const day of earned.byDay as Array<{ earnedUsd: string }>) {
      if (usd(day.earnedUsd) > 0n) await days.getByText(money(day.earnedUsd)).first().waitFor()
    }
    await close()
  })

  test('an account that is not a supplier sees no form', async () => {
    const { page, visit, look, close } = await browser.open(customer.key)
    await visit('/supply/join', 'Join a machine')
    await page.getByText('This account is not a supplier yet').waitFor()
    expect(await page.getByRole('button', { name: 'Create command' }).count()).toBe(0)
    await look('join-not-a-supplier')
    await close()
  })

  test('a machine joins with one command and appears with its next step', async () => {
    const { page, visit, look, close } = await browser.open(supplier.key)
    await visit('/supply', 'My machines')
    await page.getByRole('link', { name: 'Join a machine' }).last().click()
    await page.getByRole('heading', { level: 1, name: 'Join a machine' }).waitFor()
    await page.getByLabel('Price per GPU-hour (USD)').fill('cheap')
    await page.getByRole('button', { name: 'Create command' }).click()
    await page.getByText('Must be a price in USD up to 1000').waitFor()
    await page.getByLabel('Price per GPU-hour (USD)').fill('0.40')
    await page.getByLabel('GPUs', { exact: true }).selectOption('rtx4090')
    await page.getByLabel('Number of GPUs').fill('2')
    await page.getByLabel('Name').fill('pier-1')
    await page.getByRole('button', { name: 'Create command' }).click()
    const block = page.getByRole('region', { name: 'Command to run on the machine' })
    const command = (await block.textContent())?.replaceAll('\\\n', '') ?? ''
    expect(command).toContain(`curl -fsSL ${browser.server.url}/install.sh | sh -s -- --token bj_`)
    expect(parseSimulated(/--simulate-gpus (\S+)/.exec(command)?.[1] ?? '')).toEqual({ word: 'rtx4090', count: 2 })
    await page.getByText('Waiting for the machine').waitFor()
    await page.getByText(/expires in 23 hours 5\d minutes/).waitFor()
    await look('join-waiting')

    const [, token = ''] = /--token (\S+)/.exec(command) ?? []
    const { id, privateKey } = await joinAs(browser.server.anonymous, token, 'pier-1')
    await page.getByRole('heading', { name: 'pier-1 joined' }).waitFor()
    await page.getByText('Its agent has not reported yet').waitFor()
    await startAgent(browser.server.url, { id, privateKey })
    await page.getByText('On sale', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Change the price of pier-1' }).click()
    await page.getByLabel('Price of pier-1 per GPU-hour (USD)').fill('0.45')
    await expectDuring(page.getByText('pier-1 costs $0.45 per GPU-hour'), () => page.keyboard.press('Enter'))
    await look('join-arrived')

    await page.getByRole('button', { name: 'Create another command' }).click()
    const tokens = page.getByRole('table', { name: 'Join tokens' })
    await tokens.getByText(/in 23 hours/).waitFor()
    await tokens.getByRole('row').filter({ hasText: 'in 23 hours' }).getByRole('button').click()
    await expectDuring(page.getByText('Revoked the join token.'), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click(),
    )
    await close()
  })

  test('machines are priced, drained, taken off sale and removed, with the effect on tenants', async () => {
    const { page, visit, look, close } = await browser.open(supplier.key)
    await visit('/supply', 'My machines')
    const row = page.getByRole('row').filter({ hasText: 'pier-1' })
    await row.getByText('On sale', { exact: true }).waitFor()
    await row.getByRole('button', { name: 'Change the price of pier-1' }).click()
    await page.getByLabel('Price of pier-1 per GPU-hour (USD)').fill('5000')
    await row.getByRole('button', { name: 'Save' }).click()
    await row.getByText('Must be a price in USD up to 1000').waitFor()
    await page.getByLabel('Price of pier-1 per GPU-hour (USD)').fill('0.55')
    await row.getByRole('button', { name: 'Save' }).click()
    await row.getByText('$0.55').waitFor()

    await succeed(customer.call, 'POST', '/v1/marketplace/instances/create', {
      cluster_name: 'harbour',
      node_name: 'pier-1',
      gpu_count: 1,
    })
    await row.getByText('1 of 2').waitFor()
    await look('supply')
    await row.getByRole('button', { name: 'Details of pier-1' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('cell', { name: '71 °C' }).waitFor()
    await dialog.getByText('2 simulated GPUs').waitFor()
    expect(await dialog.getByRole('button', { name: 'Remove' }).getAttribute('title')).toContain('tenants')
    await look('supply-machine')
    await dialog.getByRole('button', { name: 'Drain' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click()
    await row.getByText('Draining').waitFor()
    await row.getByRole('button', { name: 'Details of pier-1' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click()
    await row.getByText('On sale', { exact: true }).waitFor()
    await row.getByRole('button', { name: /^Take off sale/ }).click()
    await page.getByText('Current rentals (1 GPU) continue.').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Take off sale' }).click()
    await row.getByText('Off sale', { exact: true }).waitFor()

    const second = await succeed(supplier.call, 'POST', '/v2/supply/join-tokens', {})
    await joinAs(browser.server.anonymous, second.token as string, 'pier-2')
    const other = page.getByRole('row').filter({ hasText: 'pier-2' })
    await other.getByRole('button', { name: 'Details of pier-2' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    const leave = page.getByRole('dialog').getByRole('button', { name: 'Remove' })
    expect(await leave.isDisabled()).toBe(true)
    await page.getByLabel('Type pier-2 to confirm').fill('pier-2')
    await expectDuring(page.getByText('Removed pier-2.'), () => leave.click())
    await other.waitFor({ state: 'detached' })
    await close()
  })

  test('every page fits a phone, and a customer’s key is refused with a reason', async () => {
    const narrow = await browser.open(supplier.key, { width: 390, height: 800 })
    await narrow.visit('/supply', 'My machines')
    await narrow.page.getByRole('row').filter({ hasText: 'pier-1' }).waitFor()
    expect(await narrow.page.evaluate(sidewaysPx)).toBe(0)
    await narrow.look('supply-narrow')
    await narrow.visit('/supply/join', 'Join a machine')
    expect(await narrow.page.evaluate(sidewaysPx)).toBe(0)
    await narrow.close()

    const { page, visit, look, close } = await browser.open(customer.key)
    await visit('/supply', 'My machines')
    expect(await page.getByRole('navigation', { name: 'Console' }).getByText('Join a machine').count()).toBe(0)
    await page.getByRole('alert').getByText('supply').first().waitFor()
    await look('supply-refused')
    await close()
  })
})

/** A customer rents a machine of the supplier while `pass` advances the clock. */
async function earn(operator: Call, supplierId: string, by: Call, pass: () => void): Promise<void> {
  const { instances } = await succeed(by, 'POST', '/v1/marketplace', { filters: { available_only: true } })
  const [{ id, cluster_name }] = instances as [{ id: string; cluster_name: string }]
  await succeed(operator, 'PATCH', `/v2/operator/machines/${encodeURIComponent(id)}`, {
    supplierId,
    reason: 'for the test',
  })
  const { instance_name } = await succeed(by, 'POST', '/v1/marketplace/instances/create', {
    cluster_name,
    node_name: id,
    gpu_count: 1,
  })
  const statusOf = async (): Promise<string> => {
    const reply = await succeed(by, 'GET', '/v1/marketplace/instances')
    const found = (reply.instances as Array<{ id: string; instance: { status: string } }>).find(
      (one) => one.id === instance_name,
    )
    return found?.instance.status ?? 'gone'
  }
  await waitFor('it to run', async () => (await statusOf()) === 'online')
  pass()
  await succeed(by, 'POST', '/v1/marketplace/instances/terminate', { id: instance_name })
  await waitFor('it to be gone', async () => (await statusOf()) === 'gone')
}

/** As `berth agent join` does. */
async function joinAs(anonymous: Call, token: string, name: string): Promise<{ id: string; privateKey: KeyObject }> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const body = { token, name, offer, publicKey: publicKey.export({ format: 'jwk' }).x }
  const { hostId } = await succeed(anonymous, 'POST', '/v2/agent/join', body)
  return { id: hostId as string, privateKey }
}

/** An agent that keeps reporting a healthy host. */
async function startAgent(url: string, host: { id: string; privateKey: KeyObject }): Promise<void> {
  const agent = await new TestAgent(url, host).enter()
  const notes = ['2 simulated GPUs, declared with --simulate-gpus; no such hardware exists.']
  const say = (): void => agent.report({ offer, notes })
  say()
  agent.say({
    type: 'metrics',
    gpus: [0, 1].map((index) => ({
      index,
      utilizationPercent: 87 - 80 * index,
      memoryUsedMib: 18_204 - 17_000 * index,
      memoryTotalMib: 24_564,
      powerWatts: 312 - 250 * index,
      temperatureCelsius: 71 - 35 * index,
    })),
    cpuPercent: 23.5,
    memoryUsedGb: 5.2,
    diskFreeGb: 41,
  })
  const beat = setInterval(say, HEARTBEAT_MS)
  stops.push(async () => {
    clearInterval(beat)
    await agent.end()
  })
}
