/** What holds for every page of the console: how much is loaded, that nothing moves or sticks out, keys, themes. */
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../harness/browser.ts'

const FIRST_LOAD_BYTES = 250_000
/** Less than the eye sees: a fiftieth of what counts as a good page. */
const STILL = 0.002
const PHONE = { width: 390, height: 780 }

/** Every page that needs no id, from the site map itself. */
const pages = [...readFileSync('console/routes.tsx', 'utf8').matchAll(/^ +path: '([^'$]+)',?$/gm)].flatMap(
  ([, path = '']) => (path === '/sign-in' ? [] : [path]),
)

describe.skipIf(whyNoBrowser() !== undefined)(`every page of the console${browserLeftOut}`, () => {
  let browser: ConsoleBrowser

  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  test(`loads less than ${FIRST_LOAD_BYTES / 1_000} KB at first`, async () => {
    const { page, visit, close } = await browser.open(browser.server.demoKey)
    const sizes = new Map<string, number>()
    page.on('requestfinished', async (request) => {
      const size = await request.sizes()
      sizes.set(new URL(request.url()).pathname, size.responseBodySize)
    })
    await visit('/', /./)
    await page.evaluate('document.fonts.ready.then(() => 0)')
    const files = [...sizes].filter(([path]) => path === '/' || /\.(js|css|woff2|svg)$/.test(path))
    expect(files.length).toBeGreaterThan(4)
    const bytes = files.reduce((sum, [, size]) => sum + size, 0)
    expect({ files, isSmall: bytes < FIRST_LOAD_BYTES }).toMatchObject({ isSmall: true })
    await close()
  })

  test('fits a phone, moves nothing while it loads, and is told apart by its title', async () => {
    expect(pages.length).toBeGreaterThan(25)
    const { page, close } = await browser.open(browser.server.operatorKey, PHONE)
    await page.addInitScript(`
      globalThis.shifts = []
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
          const moved = (entry.sources ?? []).map(({ node }) => node?.textContent?.slice(0, 40) ?? '?')
          if (!entry.hadRecentInput) shifts.push({ by: entry.value, moved })
        }
      }).observe({ type: 'layout-shift', buffered: true })`)
    const wrong: string[] = []
    const titles = new Set<string>()
    for (const path of pages) {
      await page.goto(path)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await page.getByRole('status', { name: 'Loading' }).first().waitFor({ state: 'detached' })
      const width = await page.evaluate<number>('document.documentElement.scrollWidth')
      const shifts = await page.evaluate<Array<{ by: number; moved: string[] }>>('shifts')
      if (width > PHONE.width) wrong.push(`${path} is ${width} px wide`)
      for (const { by, moved } of shifts) {
        if (by > STILL) wrong.push(`${path} moves by ${by.toFixed(3)}: ${moved.join(' | ')}`)
      }
      titles.add(await page.title())
    }
    expect(wrong).toEqual([])
    expect(titles.size).toBe(pages.length)
    await close()
  })

  test('is reached by keys alone, and the navigation opens on a phone', async () => {
    const { page, visit, close } = await browser.open(browser.server.demoKey, PHONE)
    await visit('/', /./)
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    expect(await page.evaluate('document.activeElement.id')).toBe('main')
    await page.getByRole('button', { name: 'Menu' }).click()
    await page.getByRole('navigation').getByRole('link', { name: 'SSH keys' }).click()
    await page.getByRole('heading', { level: 1, name: 'SSH keys' }).waitFor()
    expect(await page.getByRole('link', { name: 'SSH keys' }).isVisible()).toBe(false)
    await close()
  })

  test('keeps the theme that was chosen', async () => {
    const { page, visit, close } = await browser.open(browser.server.demoKey)
    await visit('/', /./)
    await page.getByRole('button', { name: /System theme/ }).click()
    await page.getByRole('button', { name: /Light theme/ }).click()
    await page.reload()
    await page.getByRole('button', { name: /Dark theme/ }).waitFor()
    expect(await page.evaluate('getComputedStyle(document.documentElement).colorScheme')).toBe('dark')
    await close()
  })

  test('leads to the sign-in page when the session has ended, and back', async () => {
    const { key } = await browser.server.account()
    const { page, visit, close } = await browser.open(key)
    await visit('/', /./)
    await page.context().clearCookies()
    await page.getByRole('link', { name: 'Volumes' }).click()
    await page.getByRole('heading', { name: /Sign in|Welcome/ }).waitFor()
    expect(page.url()).toContain('next=%2Fvolumes')
    await close()
  })

  test('that does not exist says so', async () => {
    const { page, visit, look, close } = await browser.open(browser.server.demoKey)
    await visit('/no/such/page', 'There is no such page')
    await look('not-found')
    await page.getByRole('link', { name: 'Go to the overview' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    expect(page.url()).toBe(`${browser.server.url}/`)
    await close()
  })
})
