/** The marketplace in a real browser, with ten thousand machines on sale. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { needs } from '../needs.ts'

needs('browser')

/** A copy of the simulated fleet has 28 machines on the marketplace. */
const COPIES = 358
const MACHINES = '10,024 machines'

describe.skipIf(whyNoBrowser() !== undefined)(`the marketplace${browserLeftOut}`, () => {
  let browser: ConsoleBrowser

  beforeAll(async () => {
    browser = await openBrowser({ env: { BERTH_MOCK_SCALE: String(COPIES) } })
  })
  afterAll(() => browser.close())

  test('renders ten thousand machines in a few dozen rows, with filters and sorting in the URL', async () => {
    const { page, visit, look, close } = await browser.open(browser.server.demoKey)
    await visit('/marketplace?each=true', 'Marketplace')
    await page.getByText(MACHINES, { exact: true }).waitFor()
    const table = page.getByRole('table', { name: 'Machines' })
    expect(await table.getAttribute('aria-rowcount')).toBe('10025')
    // Cheapest first, then by name.
    expect(await table.getByRole('row').nth(1).textContent()).toContain('mock-sin-rtx3090-01')
    expect(await table.getByRole('row').count()).toBeLessThan(100)
    await look('marketplace')
    await page.getByRole('group', { name: 'Machines' }).evaluate((box) => box.scrollTo(0, box.scrollHeight))
    await table.getByRole('button', { name: 'Rent mock-pdx-b200-02-c99', exact: true }).waitFor()
    expect(await table.getByRole('row').last().getAttribute('aria-rowindex')).toBe('10025')
    expect(await table.getByRole('row').count()).toBeLessThan(100)

    // Two sites have such GPUs: 2 machines with 8 of them at $0.39, 3 with 4 at $0.35, in each copy.
    await page.getByLabel('GPU model').selectOption('RTX 4090')
    await page.getByText(`${(5 * COPIES).toLocaleString('en')} of ${MACHINES}`).waitFor()
    await page.getByLabel('Free GPUs').selectOption('8 or more')
    await page.getByLabel('Maximum price').fill('0.39')
    await page.getByLabel('Search').fill('FRA epyc')
    await page.getByText(`${2 * COPIES} of ${MACHINES}`).waitFor()
    const supplier = page.getByRole('columnheader', { name: 'Supplier' })
    await supplier.getByRole('button').click()
    await supplier.and(page.locator('[aria-sort=ascending]')).waitFor()
    await supplier.getByRole('button').click()
    await supplier.and(page.locator('[aria-sort=descending]')).waitFor()

    await page.setViewportSize({ width: 390, height: 800 })
    await page.reload()
    await page.getByText(`${2 * COPIES} of ${MACHINES}`).waitFor()
    expect(new URL(page.url()).search).toBe(
      '?each=true&gpu=RTX+4090&free=8&price=0.39&text=FRA+epyc&sort=supplier&down=true',
    )
    expect(await page.getByLabel('Search').inputValue()).toBe('FRA epyc')
    expect(await page.getByLabel('Maximum price').inputValue()).toBe('0.39')
    expect(await supplier.getAttribute('aria-sort')).toBe('descending')
    expect(await page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth')).toBe(false)
    await look('marketplace-390')
    await page.getByLabel('Search').fill('nothing like it')
    await page.getByText('No machines match').waitFor()
    await look('marketplace-empty-390')
    await page.getByRole('button', { name: 'Show all machines' }).click()
    await page.getByText(MACHINES, { exact: true }).waitFor()
    expect(await page.getByLabel('Search').inputValue()).toBe('')
    expect(new URL(page.url()).search).toBe('?each=true&sort=supplier&down=true')
    await close()
  })

  test('starts from the GPU model, groups identical machines, and compares up to four', async () => {
    const { page, visit, look, close } = await browser.open(browser.server.demoKey, { width: 1440, height: 900 })
    await visit('/marketplace', 'Marketplace')
    const card = page.getByRole('list', { name: 'Models' }).getByRole('button', { name: /^RTX 4090/ })
    await card.click()
    await page.locator('button[aria-pressed=true]').waitFor()
    // Two sites with machines of one shape each, however many copies there are.
    expect(await card.textContent()).toContain(`${(5 * COPIES).toLocaleString('en')} machines`)
    expect(await card.textContent()).toContain('$0.35')
    const table = page.getByRole('table', { name: 'Machines' })
    await table
      .getByText(/identical machines$/)
      .first()
      .waitFor()
    // The rent button is on screen without scrolling in either direction.
    const box = await table
      .getByRole('button', { name: /^Rent / })
      .first()
      .boundingBox()
    expect(box !== null && box.x + box.width <= 1440 && box.y + box.height <= 900).toBe(true)
    await look('marketplace-1440')
    await visit('/marketplace?each=true', 'Marketplace')
    const checks = table.getByRole('checkbox')
    for (const n of [0, 1, 2, 3]) await checks.nth(n).check()
    expect(await checks.nth(4).isDisabled()).toBe(true)
    await page.getByRole('button', { name: 'Compare', exact: true }).click()
    const comparison = page.getByRole('dialog', { name: 'Compare machines' })
    expect(await comparison.getByRole('columnheader').count()).toBe(4)
    expect(await comparison.getByRole('row', { name: /^GPU memory/ }).textContent()).toContain('24 GB')
    await look('marketplace-compare')
    await close()
    const phone = await browser.open(browser.server.demoKey, { width: 390, height: 780 })
    await phone.visit('/marketplace', 'Marketplace')
    const rent = phone.page
      .getByRole('table', { name: 'Machines' })
      .getByRole('button', { name: /^Rent / })
      .first()
    const place = await rent.boundingBox()
    expect(place !== null && place.x >= 0 && place.x + place.width <= 390).toBe(true)
    await phone.look('marketplace-phone')
    await phone.close()
  })
})
