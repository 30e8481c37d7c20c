/** The operator's pages for accounts at other clouds, at a simulated one. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/instant.ts'
import { LambdaSim } from '../sim/clouds/lambda/cloud.ts'
import { browserLeftOut, expectDuring, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { succeed } from '../harness/journey.ts'
import type { TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

const providers = '/v2/operator/providers'
const rentals = '/v2/alpha/on-demand/virtual-machine-rentals'
const sim = new LambdaSim({ clock: systemClock, bootMs: 0, destroyMs: 0 })

describe.skipIf(whyNoBrowser() !== undefined)(`other clouds in the console${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let server: TestServer
  let baseUrl: string

  beforeAll(async () => {
    baseUrl = await sim.server.listen()
    browser = await openBrowser({ env: { BERTH_DRIVERS: 'host' } })
    server = browser.server
    const add = (body: object) => succeed(server.operator, 'POST', providers, { provider: 'lambda', baseUrl, ...body })
    await add({ name: 'spare', credentials: { apiKey: 'wrong-key' } })
    const rules = { markupPercentage: 20, monthlyCapUsd: '5000', preference: 5 }
    await add({ name: 'main', credentials: { apiKey: sim.apiKey }, ...rules })
    await waitFor('both accounts to be asked', async () => (await statesOf(server)).join(' ') === 'healthy broken')
    await rentAndEnd(server)
    const lines = [{ machine: 'i-unknown', amountUsd: '12.50' }]
    await succeed(server.operator, 'POST', `${providers}/main/bills`, { label: 'november.csv', lines })
  })
  afterAll(async () => {
    await browser?.close()
    await sim.server.close()
  })

  test('accounts are listed with health and money; one is read, checked, suspended and resumed', async () => {
    const { page, visit, look, faults, close } = await browser.open(server.operatorKey)
    await visit('/operator/providers', 'Providers')
    const table = page.getByRole('table', { name: 'Provider accounts' })
    const main = table.getByRole('row', { name: /^main/ })
    await main.getByText('healthy').waitFor()
    await main.getByText('of $5,000.00').waitFor()
    await main.getByText('cost + 20%').waitFor()
    await waitFor('its margin', async () => /\$0\.\d+/.test((await main.getByRole('cell').nth(3).textContent()) ?? ''))
    const spare = table.getByRole('row', { name: /^spare/ })
    await spare.getByText('rejects credentials').waitFor()
    await spare.getByText('Never answered').waitFor()
    await look('providers')
    await page.getByRole('button', { name: /^Add an account at Crusoe/ }).click()
    const crusoe = page.getByRole('dialog', { name: /^Add an account at Crusoe/ })
    expect(await crusoe.getByLabel('Secret key').getAttribute('type')).toBe('password')
    await look('providers-add')
    await crusoe.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: /^Add an account at Lambda/ }).click()
    const adding = page.getByRole('dialog', { name: /^Add an account at Lambda/ })
    await adding.getByText('Another address').click()
    await adding.getByLabel('Address of the API').fill(baseUrl)
    await adding.getByLabel('API key').fill('wrong-key')
    await adding.getByRole('button', { name: 'Check' }).click()
    await adding.getByText('does not answer', { exact: false }).waitFor()
    expect(faults()).toEqual([expect.stringContaining('status of 503')])
    await adding.getByLabel('API key').fill(sim.apiKey)
    await adding.getByRole('button', { name: 'Check' }).click()
    await adding.getByText('The credentials work.').waitFor()
    const example = adding.getByRole('table', { name: 'Examples of prices' }).getByRole('row', { name: /h100/ }).first()
    await example.waitFor()
    expect(await adding.getByRole('table').getByRole('row').count()).toBeGreaterThan(1)
    await look('providers-markup')
    await adding.getByLabel('Name').fill('third')
    await adding.getByLabel('Markup (%)').fill('50')
    expect(await statesOf(server)).toHaveLength(2)
    await expectDuring(page.getByText('Added third.', { exact: false }), () =>
      adding.getByRole('button', { name: 'Add account' }).click(),
    )
    await table
      .getByRole('row', { name: /^third/ })
      .getByText('cost + 50%')
      .waitFor()
    await succeed(server.operator, 'DELETE', `${providers}/third`)
    await table.getByRole('row', { name: /^third/ }).waitFor({ state: 'detached' })

    await main.getByRole('link', { name: 'main' }).click()
    await page.getByRole('heading', { level: 1, name: 'main' }).waitFor()
    const offers = page.getByRole('table', { name: 'Offers' })
    const offer = offers.getByRole('row', { name: /gpu_1x_h100_sxm5/ }).first()
    for (const text of ['on sale', '$3.29/hr', '$3.95/hr']) await offer.getByText(text).waitFor()
    await offers.getByText('not sold: GPU').first().waitFor()
    await look('provider-offers')
    await page.getByRole('button', { name: 'Check' }).click()
    const checked = page.getByRole('dialog', { name: 'Check of main' })
    await checked.getByText('The account can be used.').waitFor()
    await look('provider-check')
    await checked.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Suspend' }).click()
    const question = page.getByRole('dialog', { name: 'Suspend main?' })
    await expectDuring(page.getByText('Suspended main.'), () =>
      question.getByRole('button', { name: 'Suspend' }).click(),
    )
    expect(await statesOf(server)).toEqual(['suspended', 'broken'])
    await page.getByRole('note').getByText('takes no new orders').waitFor()
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('dialog', { name: 'Resume main?' }).getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('button', { name: 'Suspend' }).waitFor()
    await page.getByRole('button', { name: 'Replace credentials' }).click()
    const rotate = page.getByRole('dialog', { name: 'Replace the credentials of main' })
    await rotate.getByLabel('API key').fill(sim.apiKey)
    await expectDuring(page.getByText('Replaced the credentials of main.'), () =>
      rotate.getByRole('button', { name: 'Replace' }).click(),
    )

    await page.getByRole('tab', { name: 'Margin' }).click()
    const margins = page.getByRole('table', { name: 'Margin' })
    await margins.getByText(/^\d{4}-\d\d-\d\d$/).waitFor()
    await page.getByLabel('One row per').selectOption('Rental')
    await margins.getByText(/^#\d+$/).waitFor()
    await look('provider-margin')
    await page.getByRole('tab', { name: 'Bills' }).click()
    await page.getByRole('button', { name: 'Compare november.csv' }).click()
    const difference = page.getByRole('table', { name: 'Differences' }).getByRole('row', { name: /i-unknown/ })
    await difference.getByText('not known').waitFor()
    await look('provider-bills')
    await close()
  })

  test('on a phone, a cloud that rejects us is explained, and placement says why machines come in their order', async () => {
    const { page, visit, look, close } = await browser.open(server.operatorKey, { width: 390 })
    await visit('/operator/providers/spare', 'spare')
    await page.getByRole('note').getByText('Its offers are off sale').waitFor()
    await page.getByText('The cloud has never listed its offers.').waitFor()
    await look('provider-broken-phone')
    await visit('/operator/fleet?tab=placement&region=us-east-1&gpus=1', 'Fleet')
    const machines = page.getByRole('table', { name: 'Matching machines' })
    for (const text of ['tried first', '$3.29 per GPU-hour', '1 made']) await machines.getByText(text).first().waitFor()
    // Tables scroll, the page does not.
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
    await look('placement-phone')
    await page.setViewportSize({ width: 1280, height: 800 })
    await look('placement')
    await close()
  })
})

async function statesOf({ operator }: TestServer): Promise<string[]> {
  const { providers: accounts } = await succeed(operator, 'GET', providers)
  return (accounts as Array<{ state: string }>).map(({ state }) => state)
}

/** Costs at least one minute of the cloud. */
async function rentAndEnd(server: TestServer): Promise<void> {
  const { call } = await server.account({ usd: '500', sshKey: true })
  const order = { gpuCount: 1, gpuType: 'h100', networkType: 'ethernet', region: 'us-east-1' }
  let id = 0
  await waitFor('its offer to be on sale', async () => {
    const reply = await call('POST', rentals, order)
    id = reply.body.id
    return reply.status === 200
  })
  const isIn = (status: string) => async (): Promise<boolean> =>
    (await succeed(call, 'GET', `/v2/alpha/on-demand/rentals/${id}`)).status === status
  await waitFor('the machine to run', isIn('Running'))
  await succeed(call, 'POST', `${rentals}/terminate`, { rentalId: id })
  await waitFor('its cost to be posted', async () => {
    const { margins } = await succeed(server.operator, 'GET', '/v2/operator/margins?by=rental&name=main')
    return margins.length > 0
  })
}
