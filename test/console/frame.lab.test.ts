/** Checks of every page: size, layout shift, keyboard, themes, sessions and connection loss. */
import type { Page, Request } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CONSOLE_HEADER, CONSOLE_HEADER_VALUE, SESSION_PATH } from '../../src/contract/session.ts'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { openLine } from '../harness/cut-line.ts'
import { succeed } from '../harness/journey.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

const FIRST_LOAD_BYTES = 180_000
/** A fiftieth of the layout shift that counts as good. */
const STILL = 0.002
const PHONE = { width: 390, height: 780 }

/** Every page that needs no id. Imported by a variable: this compilation has no JSX, and the table names the pages. */
const table = '../../console/pages.ts'
const { pages: rows } = (await import(table)) as { readonly pages: ReadonlyArray<{ readonly path: string }> }
const pages = rows.map(({ path }) => path).filter((path) => !path.includes('$'))

/** Triggers the session check. The page may already be navigating, and then cannot be evaluated. */
async function focusWindow(page: Page): Promise<void> {
  await page.evaluate("dispatchEvent(new Event('focus'))").catch(() => {})
}

describe.skipIf(whyNoBrowser() !== undefined)(`every page of the console${browserLeftOut}`, () => {
  let browser: ConsoleBrowser

  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  test(`loads less than ${FIRST_LOAD_BYTES / 1_000} KB at first`, async () => {
    const { page, visit, close } = await browser.open(browser.server.demoKey)
    const requests = new Map<string, Request>()
    page.on('request', (request) => {
      const path = new URL(request.url()).pathname
      if (path === '/' || /\.(js|css|woff2|svg)$/.test(path)) requests.set(path, request)
    })
    await visit('/', /./)
    await page.evaluate('document.fonts.ready.then(() => 0)')
    const sizeOf = async ([path, request]: [string, Request]): Promise<[string, number]> => {
      await (await request.response())?.finished()
      return [path, (await request.sizes()).responseBodySize]
    }
    const files = await Promise.all([...requests].map(sizeOf))
    expect(files.length).toBeGreaterThan(4)
    const bytes = files.reduce((sum, [, size]) => sum + size, 0)
    expect({ files, isSmall: bytes < FIRST_LOAD_BYTES }).toMatchObject({ isSmall: true })
    await close()
  })

  test('fits a phone, has no layout shift, and a title of its own', async () => {
    expect(pages.length).toBeGreaterThan(25)
    const operator = await browser.open(browser.server.operatorKey, PHONE)
    // Operators land elsewhere.
    const customer = await browser.open(browser.server.demoKey, PHONE)
    const watchShifts = `
      globalThis.shifts = []
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
          const moved = (entry.sources ?? []).map(({ node }) => node?.textContent?.slice(0, 40) ?? '?')
          if (!entry.hadRecentInput) shifts.push({ by: entry.value, moved })
        }
      }).observe({ type: 'layout-shift', buffered: true })`
    const watching = await Promise.all([operator, customer].map(({ page }) => page.addInitScript(watchShifts)))
    const wrong: string[] = []
    const titles = new Set<string>()
    for (const path of pages) {
      const { page } = path === '/' ? customer : operator
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
    await Promise.all(watching.map((script) => script.dispose()))
    await operator.close()
    await customer.close()
  })

  test('draws its frame before its code is there, in both modes', async () => {
    const { page, visit, look, close } = await browser.open(browser.server.demoKey)
    await visit('/volumes', 'Volumes')
    let release = (): void => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    await page.route(/\/assets\/.*\.js$/, async (route) => {
      await held
      await route.continue()
    })
    for (const path of ['/volumes', '/sign-in']) {
      await page.goto(path, { waitUntil: 'commit' })
      await page.getByRole('status', { name: 'Loading Berth' }).waitFor()
      expect(await page.locator('#root img:visible').count()).toBe(1)
      await look(path === '/sign-in' ? 'starting-sign-in' : 'starting')
    }
    release()
    await page.goto('/volumes')
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    expect(await page.getByRole('status', { name: 'Loading Berth' }).count()).toBe(0)
    await close()
  })

  test('works by keyboard, and the navigation opens on a phone', async () => {
    const { page, visit, close } = await browser.open(browser.server.demoKey, PHONE)
    await visit('/', /./)
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.locator('#main:focus').waitFor()
    await page.getByRole('button', { name: 'Menu' }).click()
    await page.getByRole('navigation').getByRole('link', { name: 'SSH keys' }).click()
    await page.getByRole('heading', { level: 1, name: 'SSH keys' }).waitFor()
    await page.getByRole('link', { name: 'SSH keys' }).waitFor({ state: 'hidden' })
    expect(await page.getByRole('button', { name: 'Menu' }).getAttribute('aria-expanded')).toBe('false')
    await close()
  })

  test('remembers which groups of the navigation are closed, and shrinks to icons', async () => {
    const { page, visit, look, close } = await browser.open(browser.server.demoKey)
    await visit('/', 'Overview')
    const group = page.getByRole('navigation', { name: 'Console' }).getByRole('button', { name: 'Models', exact: true })
    await group.click()
    await page.getByRole('link', { name: 'Speech' }).waitFor({ state: 'hidden' })
    await page.reload()
    await page.getByRole('link', { name: 'SSH keys' }).waitFor()
    expect(await group.getAttribute('aria-expanded')).toBe('false')
    expect(await page.getByRole('link', { name: 'Speech' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Collapse navigation' }).click()
    await page.reload()
    await page.getByRole('link', { name: 'Speech' }).click()
    await page.getByRole('heading', { level: 1, name: 'Speech' }).waitFor()
    await look('narrow-navigation')
    await close()
  })

  test('finds pages, rentals, machines and request ids with Ctrl-K', async () => {
    const { key, call } = await browser.server.account({ usd: '50' })
    const order = { gpuCount: 1, region: 'mock-region', label: 'night shift' }
    const rental = await succeed(call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)
    const { page, visit, look, close } = await browser.open(key)
    await visit('/keys', 'API keys')
    await page.keyboard.press('Control+k')
    const field = page.getByRole('combobox', { name: 'Search everything' })
    await field.fill('night')
    await page.getByRole('option', { name: /night shift/ }).waitFor()
    await page.keyboard.press('Enter')
    await page.waitForURL(`/rentals/${rental.id}`)
    await page.getByRole('button', { name: 'Search', exact: true }).click()
    await field.fill('mock-fra')
    await page.getByRole('option', { name: /mock-fra-rtx4090-01/ }).click()
    await page.waitForURL('/marketplace?text=mock-fra-rtx4090-01')
    await page.keyboard.press('Control+k')
    await field.fill('keys')
    await look('search')
    expect(await page.getByRole('dialog').getByRole('option').allTextContents()).toEqual([
      'API keysAccount',
      'SSH keysAccount',
    ])
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'SSH keys' }).waitFor()
    await page.keyboard.press('Control+k')
    await field.fill('nothing is called this')
    await page.getByText('No results').waitFor()
    await page.keyboard.press('Escape')
    await field.waitFor({ state: 'detached' })
    await close()

    const operator = await browser.open(browser.server.operatorKey)
    await operator.visit('/operator/prices', 'Prices')
    await operator.page.keyboard.press('Control+k')
    const all = operator.page.getByRole('combobox', { name: 'Search everything' })
    await all.fill(rental.name)
    await operator.page.getByRole('option', { name: rental.name }).waitFor()
    await all.fill('demo')
    await operator.page.getByRole('option', { name: 'Demo' }).first().click()
    await operator.page.waitForURL('/operator/accounts/demo')
    await operator.close()
  })

  test('remembers the theme', async () => {
    const { page, visit, close } = await browser.open(browser.server.demoKey)
    await visit('/', /./)
    await page.getByRole('button', { name: /System theme/ }).click()
    await page.getByRole('button', { name: /Light theme/ }).click()
    await page.reload()
    await page.getByRole('button', { name: /Dark theme/ }).waitFor()
    expect(await page.evaluate('getComputedStyle(document.documentElement).colorScheme')).toBe('dark')
    await close()
  })

  test('redirects to sign-in when the session ends, and back', async () => {
    const { key } = await browser.server.account()
    const { page, visit, close } = await browser.open(key)
    await visit('/volumes', 'Volumes')
    await page.context().clearCookies()
    await focusWindow(page)
    await page.getByRole('heading', { name: /Sign in|Welcome/ }).waitFor()
    expect(page.url()).toContain('next=%2Fvolumes')
    await page.getByLabel('API key').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    await close()
  })

  test('loads in eight tabs, which all receive events', async () => {
    const { key, call } = await browser.server.account()
    const { page, context, visit, close } = await browser.open(key)
    const following = new Set<Page>()
    context.on('request', (request) => {
      if (request.url().includes('/v2/events/stream')) following.add(request.frame().page())
    })
    const isOpen = page.waitForResponse(/\/v2\/events\/stream/)
    await visit('/keys', 'API keys')
    await page.getByText('current session').waitFor()
    await isOpen
    const others = await Promise.all(Array.from({ length: 7 }, () => context.newPage()))
    await Promise.all(
      others.map(async (other) => {
        await other.goto('/keys')
        await other.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
      }),
    )
    await call('POST', '/v2/api-keys', { name: 'heard of', scopes: ['inference'] })
    await Promise.all([page, ...others].map((one) => one.getByText('heard of').waitFor()))
    expect([...following]).toEqual([page])
    // The first tab follows events for all of them; when it is hidden another takes over, and it reloads its data when shown.
    const hide = (isHidden: boolean): Promise<unknown> =>
      page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true })
        document.dispatchEvent(new Event('visibilitychange'))`)
    await hide(true)
    await call('POST', '/v2/api-keys', { name: 'heard later', scopes: ['inference'] })
    await Promise.all(others.map((one) => one.getByText('heard later').waitFor()))
    expect(following.size).toBe(2)
    expect(await page.getByText('heard later').count()).toBe(0)
    await hide(false)
    await page.getByText('heard later').waitFor()
    await close()
  })

  test('reloads when another account signs in from another tab', async () => {
    const { page, context, visit, close } = await browser.open(browser.server.operatorKey)
    await visit('/volumes', 'Volumes')
    const other = await context.newPage()
    await other.goto('/sign-in')
    await other.getByLabel('API key').fill(browser.server.demoKey)
    // The name of the other account appears before the reload.
    const isLoadedAgain = page.waitForEvent('load')
    await other.getByRole('button', { name: 'Sign in' }).click()
    await isLoadedAgain
    await page.getByText('Signed in to the account Demo').waitFor()
    expect(await page.getByRole('link', { name: 'Fleet' }).count()).toBe(0)
    await other.close()
    const headers = { [CONSOLE_HEADER]: CONSOLE_HEADER_VALUE }
    await context.request.post(SESSION_PATH, { headers, data: { key: browser.server.operatorKey } })
    await focusWindow(page)
    await page.getByRole('link', { name: 'Fleet' }).waitFor()
    await close()
  })

  test('shows events between the first read and the stream', async () => {
    const { key, call } = await browser.server.account()
    const { page, visit, close } = await browser.open(key)
    let goOn = (): void => {}
    const isHappened = new Promise<void>((resolve) => (goOn = resolve))
    await page.route(/\/v2\/events\/stream/, async (route) => {
      await isHappened
      await route.continue()
    })
    await visit('/keys', 'API keys')
    await page.getByRole('row', { name: 'First key' }).waitFor()
    const made = await call('POST', '/v2/api-keys', { name: 'made in between', scopes: ['inference'] })
    expect(made.status).toBe(200)
    goOn()
    await page.getByText('made in between').waitFor()
    await close()
  })

  test('reads the data of the overview once', async () => {
    const { key, call } = await browser.server.account()
    const { page, visit, close } = await browser.open(key)
    const reads = new Map<string, number>()
    page.on('request', (request) => {
      const { pathname } = new URL(request.url())
      if (pathname.startsWith('/v')) reads.set(pathname, (reads.get(pathname) ?? 0) + 1)
    })
    const isOpen = page.waitForResponse(/\/v2\/events\/stream/)
    await visit('/', 'Overview')
    await isOpen
    // A key event reloads only the event list, so any other read happened before the stream started.
    await call('POST', '/v2/api-keys', { name: 'heard of', scopes: ['inference'] })
    await page.getByRole('table', { name: 'Recent events' }).getByText('heard of').waitFor()
    for (const path of ['/v2/rentals', '/v2/customer/balance', '/v2/users/me']) {
      expect(reads.get(path), path).toBe(1)
    }
    await close()
  })

  test('loads a page once the server is back', async () => {
    const { key } = await browser.server.account()
    const line = await openLine(browser.server.url)
    const { page, visit, faults, close } = await browser.open(key)
    const isOpen = page.waitForResponse(/\/v2\/events\/stream/)
    await visit(`${line.url}/keys`, 'API keys')
    await isOpen
    await line.cut()
    await page.getByRole('link', { name: 'Volumes' }).click()
    await page.getByRole('heading', { level: 1, name: 'Page not loaded' }).waitFor()
    // The navigation and the loaded page are still shown.
    await page.getByRole('link', { name: 'API keys' }).click()
    await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
    await page.getByRole('link', { name: 'Volumes' }).click()
    await page.getByRole('heading', { level: 1, name: 'Page not loaded' }).waitFor()
    await line.mend()
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    const others = faults().filter((fault) => !fault.includes(line.url) && !/net::ERR_|PageLoadError/.test(fault))
    expect(others).toEqual([])
    await close()
    await line.close()
  })

  test('reports an unreachable server and recovers', async () => {
    const { key, call } = await browser.server.account()
    const line = await openLine(browser.server.url)
    const { page, visit, faults, close } = await browser.open(key)
    const isOpen = page.waitForResponse(/\/v2\/events\/stream/)
    await visit(`${line.url}/keys`, 'API keys')
    await isOpen
    const notice = page.getByRole('status').getByText('Server unreachable')
    await line.cut()
    await notice.waitFor()
    await call('POST', '/v2/api-keys', { name: 'made meanwhile', scopes: ['inference'] })
    await line.mend()
    await notice.waitFor({ state: 'detached' })
    await page.getByText('made meanwhile').waitFor()
    // The proxy has another port than the server, and failed loads are reported.
    const others = faults().filter((fault) => !fault.includes(line.url) && !fault.includes('net::ERR_'))
    expect(others).toEqual([])
    await close()
    await line.close()
  })

  test('can be retried or left when the account is suspended', async () => {
    const { id, key, call } = await browser.server.account()
    const suspend = async (suspended: boolean): Promise<void> => {
      await browser.server.operator('PATCH', `/v2/operator/accounts/${id}`, { suspended, reason: 'for the test' })
      await waitFor('it to hold', async () => (await call('GET', '/v2/users/me')).status === (suspended ? 403 : 200))
    }
    const { page, visit, look, faults, close } = await browser.open(key)
    // React logs the error that breaks a page.
    const others = (): string[] => faults().filter((fault) => !fault.includes('ApiError: This account is suspended'))
    await suspend(true)
    await visit('/volumes', 'Something went wrong')
    expect(others()).toEqual([])
    await look('suspended')
    await suspend(false)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    await suspend(true)
    await visit('/volumes', 'Something went wrong')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in to Berth' }).waitFor()
    expect(await page.context().cookies()).toEqual([])
    expect(others()).toEqual([])
    await close()
  })

  test('shows “Page not found” for unknown URLs', async () => {
    const { page, visit, look, close } = await browser.open(browser.server.demoKey)
    await visit('/no/such/page', 'Page not found')
    await look('not-found')
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    expect(page.url()).toBe(`${browser.server.url}/`)
    await close()
  })

  test('the check of every page notices faint text in either mode, also on a page that has passed', async () => {
    const { page, visit, look, close } = await browser.open(browser.server.demoKey)
    await visit('/ssh-keys', 'SSH keys')
    await look('ssh-keys')
    const paint = (light: string, dark: string) =>
      page.evaluate(`document.querySelector('h1').style.color = 'light-dark(${light}, ${dark})'`)
    await paint('#ccc', '#fff')
    await expect(look('faint')).rejects.toThrow('light: color-contrast: <h1')
    await paint('#000', '#333')
    await expect(look('faint')).rejects.toThrow('dark: color-contrast: <h1')
    await paint('#000', '#fff')
    await page.evaluate(`document.querySelector('h1').after(document.createElement('button'))`)
    await expect(look('nameless')).rejects.toThrow('button-name: <button>')
    await close()
  })
})
