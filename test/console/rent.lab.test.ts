/** Renting of every kind, and volumes, in a real browser. */
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { saveVolumeUse } from '../../src/store/volume/volume-growth.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { succeed } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

/** Names and values of facts. */
async function factsOf(place: Locator): Promise<Record<string, string>> {
  const names = await place.locator('dt').allTextContents()
  const values = await place.locator('dd').allTextContents()
  return Object.fromEntries(names.map((name, index) => [name, values[index] ?? '']))
}

/** Whether the page itself, not a box in it, scrolls horizontally. */
function isTooWide(page: Page): Promise<boolean> {
  return page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth')
}

function idIn(url: string): string {
  return new URL(url).pathname.split('/').at(-1) ?? ''
}

async function waitForRental(call: Call, id: string, status: string) {
  return waitFor(`rental ${id} is ${status}`, async () => {
    const { body } = await call('GET', `/v2/alpha/on-demand/rentals/${id}`)
    return body.status === status ? body : undefined
  })
}

describe.skipIf(whyNoBrowser() !== undefined)(`renting${browserLeftOut}`, () => {
  let browser: ConsoleBrowser

  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  test('rents marketplace GPUs, showing price and runway before the order', async () => {
    const { key, call } = await browser.server.account({ usd: '20' })
    const { page, visit, look, close } = await browser.open(key)
    await visit('/marketplace', 'Marketplace')
    await page.getByText(/on 28 machines$/).waitFor()
    await page.getByRole('button', { name: 'Rent mock-fra-rtx4090-01', exact: true }).click()
    const dialog = page.getByRole('dialog', { name: 'Rent RTX 4090' })
    await dialog.getByLabel('GPUs').selectOption('2 GPUs')
    await dialog.getByText('1 day 1 hour').waitFor()
    const share = /2 GPUs include ([\d,]+) CPUs, ([\d,]+) GB of memory and ([\d,]+) GB of disk/.exec(
      (await dialog.textContent()) ?? '',
    )
    // 2 × $0.39/hr; $20 lasts for 25.64 hours.
    expect(await factsOf(dialog)).toEqual({
      'Per hour': '$0.78',
      'Per day': '$18.72',
      'Per 30 days': '$561.60',
      'While stopped': '$0.0068/hr for 50 GB of disk',
      Balance: '$20.00',
      Available: '$20.00',
      'On hold': '$0.00',
      'Current spend': '$0.00/hr',
      'Balance lasts': '1 day 1 hour',
    })
    await dialog.getByLabel('Label').fill('notebook')
    await dialog.getByLabel('Ports').fill('8888, web')
    await dialog.getByLabel('Spending limit').fill('a lot')
    await dialog.getByRole('button', { name: 'Rent 2 GPUs' }).click()
    await dialog.getByText('Must be like 8888/http').waitFor()
    await dialog.getByText('Must be an amount in USD').waitFor()
    await look('marketplace-rent')
    await dialog.getByLabel('Ports').fill('8888/http')
    await dialog.getByLabel('Spending limit').fill('5')
    await expectDuring(page.getByText('notebook is starting'), () =>
      dialog.getByRole('button', { name: 'Rent 2 GPUs' }).click(),
    )
    await page.waitForURL(/\/rentals\/\d+$/)
    const instance = await waitFor('the instance runs', async () => {
      const { body } = await call('GET', '/v1/marketplace/instances')
      return body.instances[0].instance.status === 'online' ? body.instances[0] : undefined
    })
    expect(instance).toMatchObject({
      userMetadata: { label: 'notebook' },
      instance: { gpu_count: 2, pricing: { price: { amount: 0.39 } } },
    })
    const { id, resources } = (await call('GET', `/v2/rentals/${instance.id}`)).body
    expect(String(id)).toBe(idIn(page.url()))
    expect(share?.slice(1).map((text) => Number(text.replaceAll(',', '')))).toEqual([
      resources.cpuCount,
      resources.ramGb,
      resources.storageGb,
    ])

    // 8 × $4.69/hr is more than the balance.
    await visit('/marketplace?text=b200-01', 'Marketplace')
    await page.getByRole('button', { name: 'Rent mock-pdx-b200-01' }).click()
    const large = page.getByRole('dialog', { name: 'Rent B200 SXM 180GB' })
    await large.getByText('$0.78/hr').waitFor()
    await large.getByLabel('GPUs').selectOption('8 GPUs')
    await large.getByText('This order needs $37.52').waitFor()
    expect(await large.getByRole('button', { name: 'Rent 8 GPUs' }).isDisabled()).toBe(true)
    await look('marketplace-too-little')
    await close()
  })

  test('warns without an SSH key, and shows the server’s refusal of a taken machine', async () => {
    const { key } = await browser.server.account({ usd: '20', sshKey: false })
    const { page, visit, close } = await browser.open(key)
    await visit('/marketplace?region=ap-south', 'Marketplace')
    await page.getByRole('button', { name: 'Rent mock-sin-rtx3090-01' }).click()
    const dialog = page.getByRole('dialog', { name: 'Rent RTX 3090' })
    await dialog.getByRole('link', { name: 'Add an SSH key' }).waitFor()
    const other = await browser.server.account({ usd: '5' })
    const node = { cluster_name: 'mock-sin', node_name: 'mock-sin-rtx3090-01', gpu_count: 1 }
    expect((await other.call('POST', '/v1/marketplace/instances/create', node)).status).toBe(200)
    await dialog.getByRole('button', { name: 'Rent 1 GPU' }).click()
    await dialog.getByText('not enough free GPUs').waitFor()
    await close()
  })

  test('rents from a template, with its parameters and advanced options', async () => {
    const { key, call } = await browser.server.account({ usd: '20' })
    const template = await succeed(call, 'POST', '/v2/templates', {
      name: 'Trainer',
      summary: 'Trains until it is told to stop.',
      icon: 'flame',
      image: { name: 'example/trainer', tag: '1' },
      params: [{ name: 'RUN_NAME', description: 'Name of the run' }],
    })
    const { page, visit, look, close } = await browser.open(key, { width: 1440, height: 900 })
    await visit('/templates', 'Templates')
    await page.getByRole('link', { name: 'Use Trainer' }).click()
    await page.getByRole('radio', { name: /Trainer/, checked: true }).waitFor()
    await look('marketplace-template')
    await page.getByLabel('Search').fill('mock-fra-rtx4090')
    await page
      .getByRole('button', { name: /^Rent mock-fra-rtx4090/ })
      .first()
      .click()
    const dialog = page.getByRole('dialog', { name: 'Rent RTX 4090' })
    await dialog.getByLabel('RUN_NAME').fill('first')
    await dialog.getByText('Advanced options').click()
    await dialog.getByLabel('Environment variables').fill('MODE')
    await dialog.getByRole('button', { name: 'Rent 1 GPU' }).click()
    await dialog.getByText('Write NAME=value on each line').waitFor()
    await dialog.getByLabel('Environment variables').fill('MODE=train\nEPOCHS=3')
    await dialog.getByLabel('Disk (GB)').fill('50')
    await dialog.getByLabel('Idle for (minutes)').fill('30')
    await look('marketplace-rent-advanced')
    await dialog.getByRole('button', { name: 'Rent 1 GPU' }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    const order = await succeed(call, 'GET', `/v2/rentals/${idIn(page.url())}/order`)
    expect(order.order).toMatchObject({
      env: { RUN_NAME: 'first', MODE: 'train', EPOCHS: '3' },
      diskGb: 50,
      image: { name: 'example/trainer', tag: '1' },
    })
    expect(template.id).toBeTruthy()
    // On a phone the rent button stays at the bottom of the screen.
    await page.setViewportSize({ width: 390, height: 780 })
    await visit(`/rent?template=${template.id}`, 'Rent a machine')
    const button = await page.getByRole('button', { name: /^Rent for/ }).boundingBox()
    expect(button !== null && button.y > 700 && button.y + button.height <= 780).toBe(true)
    await look('rent-phone')
    await close()
  })

  test("shows which secrets another account's template asks for, and gives it the chosen ones (issue 31, 2)", async () => {
    const stranger = await browser.server.account({ usd: '1' })
    const { key, call } = await browser.server.account({ usd: '20' })
    await succeed(call, 'PUT', '/v2/secrets/HF_TOKEN', { value: 'a secret' })
    const { id } = await succeed(stranger.call, 'POST', '/v2/templates', {
      name: 'Shared',
      visibility: 'link',
      env: { HF_TOKEN: '{{ secrets.HF_TOKEN }}' },
    })
    const { page, visit, look, close } = await browser.open(key)
    await visit(`/marketplace?template=${id}`, 'Marketplace')
    await page.getByRole('radio', { name: /Shared/, checked: true }).waitFor()
    // The order is for the version that the page shows.
    await succeed(stranger.call, 'PATCH', `/v2/templates/${id}`, { env: { HF_TOKEN: 'changed' } })
    await page.getByLabel('Search').fill('mock-fra-rtx4090')
    await page
      .getByRole('button', { name: /^Rent mock-fra-rtx4090/ })
      .first()
      .click()
    const dialog = page.getByRole('dialog', { name: 'Rent RTX 4090' })
    await dialog.getByText('This template is from another account.').waitFor()
    await dialog.getByRole('button', { name: 'Rent 1 GPU' }).click()
    await dialog.getByRole('alert').filter({ hasText: 'HF_TOKEN' }).waitFor()
    await look('marketplace-rent-secrets')
    await dialog.getByRole('checkbox', { name: 'HF_TOKEN' }).check()
    await dialog.getByRole('button', { name: 'Rent 1 GPU' }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    const { workload } = await succeed(call, 'GET', `/v2/rentals/${idIn(page.url())}`)
    expect(workload).toMatchObject({ templateId: `${id}@1`, env: { HF_TOKEN: '{{ secrets.HF_TOKEN }}' } })
    await close()
  })

  test('rents a virtual machine, with a live price and unavailable choices disabled', async () => {
    const { key, call } = await browser.server.account({ usd: '10000' })
    const { page, visit, look, close } = await browser.open(key)
    await visit('/rent', 'Rent a machine')
    await page.getByRole('tab', { name: 'Container' }).click()
    await page.getByRole('button', { name: /^RTX 4090/ }).waitFor()
    await look('rent-container')
    await page.getByRole('tab', { name: 'Virtual machine' }).click()
    const price = page.getByRole('region', { name: 'Price' })
    await choose(page, 'B200')
    await choose(page, 'eu-north-2')
    expect(await page.getByRole('radio', { name: 'Ethernet' }).isDisabled()).toBe(true)
    await page.getByText('not with this GPU here').waitFor()
    await choose(page, 'H200')
    await choose(page, 'mock-region')
    await choose(page, 'Ethernet')
    await choose(page.getByRole('group', { name: 'GPUs', exact: true }), /^4 GPUs/)
    await price.getByText('$12.76', { exact: true }).waitFor()
    await choose(page, 'InfiniBand')
    // 4 × ($3.19 + $0.30); $10,000 lasts for 716.3 hours.
    await price.getByText('$13.96', { exact: true }).waitFor()
    expect(await factsOf(price)).toMatchObject({ 'Per day': '$335.04', 'Balance lasts': '29 days 20 hours' })
    await page.reload()
    await price.getByText('$13.96', { exact: true }).waitFor()
    expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({
      kind: 'virtual-machine',
      region: 'mock-region',
      gpu: 'h200',
      network: 'infiniband',
      count: '4',
    })
    // 30 days (720 hours) with a 10 % discount.
    await choose(page, '30 days')
    expect(await factsOf(price)).toMatchObject({
      'Per hour': '$12.56',
      'List price': '$13.96/hr, −10 %',
      'Total for 30 days': '$9,046.08',
      Hold: '$9,046.08 when you order',
    })
    await price.getByText(/you pay \$13\.96\/hr for the time used, at most \$9,046\.08/).waitFor()
    await page.getByRole('checkbox', { name: 'Continue on demand when the term ends' }).uncheck()
    await page.getByLabel('Ports').fill('99999')
    await page.getByLabel('Ends at').fill('2020-01-01T12:00')
    await page.getByRole('button', { name: 'Rent for $12.56/hr' }).click()
    await page.getByText('Must be at most 65535').waitFor()
    await page.getByText('Choose a time in the future').waitFor()
    await look('rent-faults')
    await page.getByLabel('Ports').fill('8080 8888')
    await page.getByLabel('Ends at').fill('')
    await page.getByLabel('Label').fill('training')
    await page.getByLabel('Spending limit').fill('9100')
    await expectDuring(page.getByText('training is starting'), () =>
      page.getByRole('button', { name: 'Rent for $12.56/hr' }).click(),
    )
    await page.waitForURL(/\/rentals\/\d+$/)
    expect(await waitForRental(call, idIn(page.url()), 'Running')).toMatchObject({
      label: 'training',
      rentalType: 'virtual-machine',
      region: 'mock-region',
      gpuType: 'h200',
      gpuCount: 4,
      connectionType: 'infiniband',
      convertToOnDemandOnExpiry: false,
      spendingLimitUsd: '9100.000000000',
      currentTerm: { termType: 'reserved', termPeriodDays: 30, costPerHour: 12.564, originalCostPerHour: 13.96 },
    })
    // The cost of ending early is shown first.
    await page.reload()
    await page.getByRole('button', { name: 'Terminate' }).click()
    const end = page.getByRole('dialog')
    await end.getByText(/its total cost is \$.* of the hold is released\./).waitFor()
    await end.getByRole('button', { name: 'Terminate' }).click()
    await end.waitFor({ state: 'detached' })
    expect(await succeed(call, 'GET', '/v2/customer/balance')).toMatchObject({ heldUsd: '0.000000000' })

    await visit('/rent?region=mock-region&gpu=h100&count=1', 'Rent a machine')
    await page.getByLabel('Label').fill('fault-no-capacity')
    await page.getByRole('button', { name: 'Rent for $2.49/hr' }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    await waitForRental(call, idIn(page.url()), 'Failed')
    await close()
  })

  test('never orders at a price that was not shown, or twice after a lost response', async () => {
    const { key, call } = await browser.server.account({ usd: '100' })
    const { page, visit, look, faults, close } = await browser.open(key)
    const { operator } = browser.server
    await visit('/rent?region=mock-region&gpu=h100&network=ethernet&count=2', 'Rent a machine')
    await page.getByLabel('Label', { exact: true }).fill('dearer')
    const row = { machineType: 'virtual-machine', region: 'mock-region', gpuType: 'h100', networkType: 'ethernet' }
    await succeed(operator, 'PUT', '/v2/operator/price-book', {
      gpus: [{ ...row, gpuCount: 2, perGpuHourUsd: '2.75', enabled: true }],
      reason: 'dearer power',
    })
    await page.getByRole('button', { name: 'Rent for $4.98/hr' }).click()
    await page
      .getByRole('alert')
      .getByText('The price has changed from $4.98/hr to $5.50/hr. Review it and order again.')
      .waitFor()
    expect((await call('GET', '/v2/alpha/on-demand/virtual-machine-rentals')).body).toEqual([])
    await look('rent-price-changed')
    // The order arrives, but its response is lost.
    await page.route('**/v2/rentals', async (route) => {
      if (route.request().method() === 'POST') await route.fetch()
      await route.abort()
    })
    await page.getByRole('button', { name: 'Rent for $5.50/hr' }).click()
    await page.getByRole('alert').getByText('then try again.').waitFor()
    await page.unrouteAll()
    await page.getByLabel('Label', { exact: true }).fill('another')
    await page.getByRole('button', { name: 'Rent for $5.50/hr' }).click()
    await page.getByRole('alert').getByText('Your first order succeeded. Check').waitFor()
    expect(await page.getByRole('alert').getByRole('link', { name: 'Rentals' }).getAttribute('href')).toBe('/rentals')
    expect((await call('GET', '/v2/alpha/on-demand/virtual-machine-rentals')).body).toMatchObject([
      { label: 'dearer', currentTerm: { costPerHour: 5.5 } },
    ])
    await page.getByRole('button', { name: 'Rent for $5.50/hr' }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    expect((await call('GET', '/v2/alpha/on-demand/virtual-machine-rentals')).body).toHaveLength(2)
    // The responses that the test dropped.
    for (const fault of faults()) expect(fault).toContain('net::ERR_FAILED')

    const supplier = await browser.server.account({ platformFeePercentage: 10 })
    const machine = 'mock-pdx-b200-01'
    const handed = { supplierId: supplier.id, reason: 'sold' }
    await succeed(operator, 'PATCH', `/v2/operator/machines/${machine}`, handed)
    await visit('/marketplace?text=b200-01', 'Marketplace')
    await page.getByRole('button', { name: `Rent ${machine}` }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('GPUs').selectOption('2 GPUs')
    await succeed(supplier.call, 'PATCH', `/v2/supply/machines/${machine}`, { pricePerGpuHourUsd: '5' })
    await dialog.getByRole('button', { name: 'Rent 2 GPUs' }).click()
    await dialog.getByText('The price has changed from $9.38/hr to $10.00/hr. Review it and order again.').waitFor()
    expect(await factsOf(dialog)).toMatchObject({ 'Per hour': '$10.00' })
    await dialog.getByRole('button', { name: 'Rent 2 GPUs' }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    await close()
  })

  test('explains a low balance, and requests a large reservation', async () => {
    const { id, key } = await browser.server.account({ usd: '1' })
    const { page, visit, look, close } = await browser.open(key, { width: 390 })
    await visit('/rent', 'Rent a machine')
    await page.getByText('but only $1.00 is').waitFor()
    expect(await page.getByRole('button', { name: /^Rent for/ }).isDisabled()).toBe(true)
    expect(await isTooWide(page)).toBe(false)
    await look('rent-390')
    await page.getByRole('button', { name: 'Request a large reservation' }).click()
    const dialog = page.getByRole('dialog', { name: 'Request a large reservation' })
    await dialog.getByLabel('GPUs').fill('many')
    await dialog.getByRole('button', { name: 'Send request' }).click()
    await dialog.getByText('Must be a number').waitFor()
    await dialog.getByLabel('GPUs').fill('512')
    await dialog.getByLabel('Model').selectOption('H200')
    await dialog.getByLabel('From').fill('2027-03-01')
    await dialog.getByLabel('Until').fill('2027-02-01')
    await dialog.getByRole('button', { name: 'Send request' }).click()
    await dialog.getByText('Must be after the start').waitFor()
    await dialog.getByLabel('Until').fill('2027-06-01')
    await dialog.getByLabel('Contact').fill('ops@example.com')
    await look('rent-reservation-390')
    await expectDuring(page.getByText('Requested 512 GPUs from the operator'), () =>
      dialog.getByRole('button', { name: 'Send request' }).click(),
    )
    const { events } = await succeed(browser.server.operator, 'GET', `/v2/operator/events?accountId=${id}&limit=1`)
    expect(events[0]).toMatchObject({
      type: 'reservation.requested',
      data: {
        gpuCount: 512,
        gpuType: 'h200',
        from: '2027-03-01T00:00:00.000Z',
        until: '2027-06-01T00:00:00.000Z',
        contact: 'ops@example.com',
      },
    })
    await close()
  })

  test('rents bare metal with a new volume; creates, attaches, detaches and deletes volumes', async () => {
    const { key, call } = await browser.server.account({ usd: '100' })
    const { page, visit, look, close } = await browser.open(key)
    await visit('/volumes', 'Volumes')
    await page.getByText('No volumes yet').waitFor()
    await look('volumes-empty')

    await visit('/rent?kind=bare-metal', 'Rent a machine')
    const price = page.getByRole('region', { name: 'Price' })
    await choose(page, 'H100')
    await choose(page, 'us-central-1')
    await choose(page, 'InfiniBand')
    await choose(page, '2 machines')
    // 16 × ($2.49 + $0.30).
    await price.getByText('$44.64', { exact: true }).waitFor()
    await page.getByLabel('CUDA version').selectOption('CUDA 12.9')
    await choose(page, 'New volume')
    await page.getByLabel('Volume label').fill('my data')
    await page.getByLabel('Label', { exact: true }).fill('cluster')
    // Plus 256 × $0.0001 for the volume, although none exists here yet.
    await page.getByRole('button', { name: 'Rent for $44.67/hr' }).click()
    await page.getByText('Must be letters, digits, underscores and hyphens').waitFor()
    await page.getByLabel('Volume label').fill('datasets')
    await page.getByLabel('Volume size (GB)').fill('512')
    await price.getByText('512 GB, $0.0512/hr').waitFor()
    await look('rent-bare-metal')
    await page.getByRole('button', { name: 'Rent for $44.69/hr' }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    const rentalId = Number(idIn(page.url()))
    const rental = await waitForRental(call, String(rentalId), 'Running')
    expect(rental).toMatchObject({ rentalType: 'bare-metal', gpuCount: 16, currentTerm: { costPerHour: 44.64 } })

    await visit('/volumes', 'Volumes')
    const datasets = page.getByRole('row', { name: /datasets/ })
    await datasets.getByText('active').waitFor()
    await datasets.getByRole('link', { name: 'cluster' }).waitFor()
    // 512 × $0.0001 for 720 hours.
    await datasets.getByText('$0.0512/hr').waitFor()
    await datasets.getByText('$36.86 per 30 days').waitFor()

    await page.getByRole('button', { name: 'Create volume' }).click()
    const create = page.getByRole('dialog', { name: 'Create volume' })
    await create.getByLabel('Region').selectOption('us-central-1')
    await create.getByText('For containers, virtual machines and bare metal in this region.').waitFor()
    await create.getByText('it can grow later', { exact: false }).waitFor()
    await create.getByLabel('Label').fill('scratch')
    await create.getByLabel('Size (GB)').fill('1024')
    expect(await factsOf(create)).toEqual({ 'Per hour': '$0.1024', 'Per day': '$2.46', 'Per 30 days': '$73.73' })
    await look('volumes-create')
    await create.getByRole('button', { name: 'Create volume' }).click()
    const scratch = page.getByRole('row', { name: /scratch/ })
    await scratch.getByText('active').waitFor()

    await datasets.getByRole('link', { name: 'datasets' }).click()
    await page.getByRole('heading', { level: 1, name: 'datasets' }).waitFor()
    expect(await page.getByRole('button', { name: 'Delete' }).getAttribute('title')).toBe('Detach the volume first')
    expect(await page.getByRole('button', { name: 'Clone' }).getAttribute('title')).toBe('Detach the volume first')
    expect(await page.getByLabel('Open the folder').inputValue()).toBe('cd /mnt/datasets')
    await page.getByText(/^198\.51\.100\.\d+$/).waitFor()

    await visit('/volumes', 'Volumes')
    await scratch.getByRole('link', { name: 'scratch' }).click()
    await page.getByRole('button', { name: 'Attach' }).click()
    const attach = page.getByRole('dialog', { name: 'Attach scratch' })
    await attach.getByRole('checkbox', { name: 'cluster' }).check()
    await look('volumes-attach')
    await attach.getByRole('button', { name: 'Attach' }).click()
    const users = page.getByRole('table', { name: 'Rentals with this volume' })
    await users.getByRole('row', { name: /cluster.*attached/ }).waitFor()
    await look('volume')
    await users.getByRole('button', { name: 'Detach from cluster' }).click()
    await page.getByRole('dialog', { name: 'Detach scratch?' }).getByRole('button', { name: 'Detach' }).click()
    await page.getByText('Nothing uses it').waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    const remove = page.getByRole('dialog', { name: 'Delete scratch' })
    expect(await remove.getByRole('button', { name: 'Delete volume' }).isDisabled()).toBe(true)
    await remove.getByLabel('Type scratch to confirm').fill('scratch')
    await remove.getByRole('button', { name: 'Delete volume' }).click()
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    await scratch.waitFor({ state: 'detached' })
    expect((await call('GET', '/v2/alpha/on-demand/storage-volumes')).body).toMatchObject([
      { label: 'datasets', attachedRentals: [rentalId] },
    ])
    await close()
  })

  test('rents machines with volumes; shows their use, grows and clones them', async () => {
    const { key, call } = await browser.server.account({ usd: '100' })
    const volumes = '/v2/alpha/on-demand/storage-volumes'
    const make = async (label: string, more: object): Promise<number> => {
      const { storageVolumeId } = await succeed(call, 'POST', volumes, { label, sizeInGb: 512, ...more })
      return storageVolumeId
    }
    const models = await make('models', { region: 'mock-region' })
    const data = await make('data', { region: 'mock-region' })
    const elsewhere = await make('elsewhere', { region: 'us-central-1' })
    await waitFor('the volumes are active', async () => {
      const { body } = await call('GET', volumes)
      return body.every(({ status }: { status: string }) => status === 'active')
    })
    const { page, visit, look, close } = await browser.open(key)

    // Only the volumes of the region are offered.
    await visit('/rent?region=mock-region&gpu=h100&count=1', 'Rent a machine')
    await page.getByRole('button', { name: 'Add a volume' }).click()
    const volume = page.getByLabel('Volume', { exact: true })
    expect(await volume.locator('option').allTextContents()).toEqual(['data, 512 GB', 'models, 512 GB'])
    await volume.selectOption('models, 512 GB')
    expect(await page.getByLabel('Mount path').inputValue()).toBe('/mnt/models')
    await page.getByLabel('Mount path').fill('data')
    await page.getByLabel('Read-only').check()
    await page.getByRole('button', { name: 'Add another volume' }).click()
    await page.getByRole('button', { name: 'Rent for' }).click()
    await page.getByText('Must be an absolute path').waitFor()
    await look('rent-volumes')
    await page.getByLabel('Mount path', { exact: true }).fill('/models')
    await page.getByLabel('Label', { exact: true }).fill('trainer')
    await page.getByRole('button', { name: 'Rent for' }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    const rentalId = idIn(page.url())
    await waitForRental(call, rentalId, 'Running')
    await page.getByRole('tab', { name: 'Volumes' }).click()
    const own = page.getByRole('table', { name: 'Volumes of this machine' })
    await own.getByRole('row', { name: /models.*\/models.*Read-only.*attached/ }).waitFor()
    await own.getByRole('row', { name: /data.*\/mnt\/data.*Read-write.*attached/ }).waitFor()
    // The engine attaches volumes of virtual machines only when they are ordered.
    expect(await page.getByRole('button', { name: /tach/ }).count()).toBe(0)
    await look('rental-volumes-fixed')

    // The engine of this server does not measure them.
    await saveVolumeUse(browser.server.app.database.db, new Map([[models, 466]]))
    await own.getByRole('link', { name: 'models' }).click()
    await page.getByRole('heading', { level: 1, name: 'models' }).waitFor()
    await page.getByRole('meter', { name: 'Used on models' }).waitFor()
    await page.getByText('466 of 512 GB').waitFor()
    await page.getByRole('row', { name: /trainer.*Virtual machine.*\/models.*Read-only/ }).waitFor()
    expect(await page.getByRole('button', { name: 'Clone' }).getAttribute('title')).toMatch(/^Terminate trainer first/)

    await page.getByRole('button', { name: 'Grow' }).click()
    const grow = page.getByRole('dialog', { name: 'Grow models' })
    await grow.getByLabel('New size (GB)').fill('512')
    await grow.getByRole('button', { name: 'Grow volume' }).click()
    await grow.getByText('Must be more than 512').waitFor()
    await grow.getByLabel('New size (GB)').fill('1024')
    expect(await factsOf(grow)).toMatchObject({ 'Per hour': '$0.1024' })
    await look('volume-grow')
    await grow.getByRole('button', { name: 'Grow volume' }).click()
    await page.getByText('466 of 1,024 GB').waitFor()
    await look('volume-used')

    await visit(`/volumes/${elsewhere}`, 'elsewhere')
    await page.getByRole('button', { name: 'Clone' }).click()
    const clone = page.getByRole('dialog', { name: 'Clone elsewhere' })
    await clone.getByLabel('Label of the copy').fill('copy of it')
    await clone.getByRole('button', { name: 'Clone volume' }).click()
    await clone.getByText('Must be letters, digits, underscores and hyphens').waitFor()
    await clone.getByLabel('Label of the copy').fill('elsewhere-2')
    await look('volume-clone')
    await clone.getByRole('button', { name: 'Clone volume' }).click()
    await page.getByRole('heading', { level: 1, name: 'elsewhere-2' }).waitFor()
    await page.getByText('active', { exact: true }).waitFor()

    // A container takes volumes of its engine. Two rentals share one where the engine can.
    await visit('/marketplace?text=mock-fra-rtx4090-01&each=true', 'Marketplace')
    await page.getByRole('button', { name: 'Rent mock-fra-rtx4090-01', exact: true }).click()
    const dialog = page.getByRole('dialog', { name: 'Rent RTX 4090' })
    await dialog.getByRole('button', { name: 'Add a volume' }).click()
    await dialog.getByLabel('Volume', { exact: true }).selectOption('models, 1,024 GB')
    await dialog.getByLabel('Mount path').fill('/models')
    await look('marketplace-rent-volume')
    await dialog.getByRole('button', { name: 'Rent 1 GPU' }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    await page.getByRole('tab', { name: 'Volumes' }).click()
    await own.getByRole('row', { name: /models.*\/models/ }).waitFor()
    await visit('/volumes', 'Volumes')
    await page
      .getByRole('row', { name: /models/ })
      .getByRole('listitem')
      .nth(1)
      .waitFor()
    await look('volumes')
    const mounts = (await call('GET', volumes)).body.find(({ id }: { id: number }) => id === models).mounts
    expect(mounts).toMatchObject([
      { rentalId: Number(rentalId), path: '/models', readOnly: true },
      { kind: 'container', name: expect.stringMatching(/^[a-z-]+$/), path: '/models', readOnly: false },
    ])
    expect(data).toBeGreaterThan(0)
    await page.setViewportSize({ width: 390, height: 800 })
    expect(await isTooWide(page)).toBe(false)
    await look('volumes-390')
    await visit(`/volumes/${models}`, 'models')
    expect(await isTooWide(page)).toBe(false)
    await look('volume-390')
    await close()
  })

  test('rents again with the settings of a machine, and exports them', async () => {
    const { key, call } = await browser.server.account({ usd: '100' })
    const node = { cluster_name: 'mock-fra', node_name: 'mock-fra-rtx4090-01' }
    const settings = {
      image: { name: 'example/trainer', tag: '2' },
      env: { MODE: 'train', CONFIG: 'a: 1\nb: 2' },
      command: ['python', 'train.py', '--name', 'my run'],
      args: ['--fast'],
      ports: [{ port: 8888, protocol: 'http', access: 'private', healthPath: '/health' }, 9000],
      diskGb: 40,
      idle: { afterMinutes: 30, action: 'stop', gpuUtilBelowPercent: 10, graceSeconds: 60 },
      files: [{ path: '/etc/trainer.yml', content: 'lr: 0.1', mode: '0600' }],
      metadata: { team: 'vision' },
    }
    const order = { ...node, gpu_count: 1, ...settings, label: 'trainer' }
    const { instance_name: first } = await succeed(call, 'POST', '/v1/marketplace/instances/create', order)
    const orderOf = async (id: string) => (await succeed(call, 'GET', `/v2/rentals/${id}/order`)).order
    const before = await orderOf(first)
    const { page, visit, look, close } = await browser.open(key)

    await visit(`/rentals/containers/${first}`, 'trainer')
    await page.getByRole('button', { name: 'Export' }).click()
    const exported = page.getByRole('dialog', { name: `Export ${first}` })
    // A file is no part of a command line.
    await exported.getByText(`berth rent --like ${first}`).waitFor()
    await exported.getByRole('tab', { name: 'API call' }).click()
    await exported.getByText(/^curl -X POST .*\/v2\/rentals/).waitFor()
    await look('rental-export')
    await exported.getByRole('tab', { name: 'Template' }).click()
    await exported.getByLabel('Name').fill('Trainer again')
    await look('rental-export-template')
    await exported.getByRole('button', { name: 'Save as template' }).click()
    await exported.waitFor({ state: 'detached' })
    const { templates } = await succeed(call, 'GET', '/v2/templates')
    expect(templates).toContainEqual(expect.objectContaining({ name: 'Trainer again', diskGb: 40 }))

    await page.getByRole('link', { name: 'Rent again' }).click()
    const dialog = page.getByRole('dialog', { name: 'Rent RTX 4090' })
    await dialog.getByText('Advanced options').click()
    expect(await dialog.getByLabel('Image').inputValue()).toBe('example/trainer:2')
    expect(await dialog.getByLabel('Ports').inputValue()).toBe('8888/http, 9000')
    expect(await dialog.getByLabel('Environment variables').inputValue()).toBe('MODE=train')
    expect(await dialog.getByLabel('Start command').inputValue()).toBe("python train.py --name 'my run'")
    await dialog.getByLabel('Environment variables').fill('MODE=test')
    await look('marketplace-rent-again')
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await page.getByText('1 file, the arguments, 1 long variable, the metadata').waitFor()
    await look('marketplace-like')
    await page.reload()
    await dialog.getByText('Advanced options').click()
    await dialog.getByLabel('Environment variables').fill('MODE=test')
    await dialog.getByRole('button', { name: 'Rent 1 GPU' }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    expect(await orderOf(idIn(page.url()))).toEqual({
      ...before,
      // Typed as one word.
      image: { name: 'example/trainer:2' },
      env: { ...settings.env, MODE: 'test' },
    })

    const body = { gpuCount: 2, gpuType: 'h200', region: 'mock-region', label: 'notebook', ports: [8080] }
    const { id } = await succeed(call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', body)
    await visit(`/rentals/${id}`, 'notebook')
    await page.getByRole('button', { name: 'Export' }).click()
    await page
      .getByRole('dialog')
      .getByText(/^berth rent.*--kind vm.*--gpu h200.*--count 2.*--port 8080/s)
      .waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    await page.getByRole('link', { name: 'Rent again' }).click()
    await page.getByText('Renting again with the settings of notebook').waitFor()
    await page.getByRole('radio', { name: 'H200', checked: true }).waitFor()
    expect(await page.getByLabel('Ports').inputValue()).toBe('8080')
    await look('rent-like')
    await page.getByRole('button', { name: /^Rent for/ }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    expect(await orderOf(idIn(page.url()))).toEqual(await orderOf(String(id)))
    await close()
  })
})

/** Choices are in the URL, so a radio is checked only after the navigation. */
async function choose(page: Page | Locator, name: string | RegExp): Promise<void> {
  await page.getByRole('radio', { name }).click()
  await page.getByRole('radio', { name, checked: true }).waitFor()
}
