/** Signing in to the console in a real browser. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { needs } from '../needs.ts'

needs('browser')

describe.skipIf(whyNoBrowser() !== undefined)(`signing in${browserLeftOut}`, () => {
  let browser: ConsoleBrowser

  beforeAll(async () => {
    browser = await openBrowser({ isTrial: true })
  })
  afterAll(() => browser.close())

  test('the printed link shows the demo key and opens the tour, once', async () => {
    const { page, look, close } = await browser.open(null)
    const link = `/sign-in#welcome=${browser.server.demoLinkToken}`
    await page.goto('/')
    await page.getByRole('heading', { name: 'Sign in to Berth' }).waitFor()
    await page.getByLabel('API key').and(page.locator(':focus')).waitFor()
    // Pasted into the address bar of the same tab: only the part after the # changes, and nothing is loaded.
    await page.evaluate(`location.href = ${JSON.stringify(link)}`)
    await page.getByRole('heading', { name: 'Welcome to Berth' }).waitFor()
    expect(page.url()).not.toContain('welcome')
    expect(await page.getByLabel('Demo key').inputValue()).toBe(browser.server.demoKey)
    await look('welcome')
    await page.getByRole('button', { name: 'Start the tour' }).click()
    await page.waitForURL('/tour')
    await page.getByRole('button', { name: 'Signed in to the account' }).click()
    await look('account-menu')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in to Berth' }).waitFor()
    expect(await page.content()).not.toContain(browser.server.demoKey)
    await page.goto('about:blank')
    await page.goto(link)
    await page.getByRole('heading', { name: 'Sign in to Berth' }).waitFor()
    await page.getByText('This link was used before, or has expired.').waitFor()
    await look('sign-in')
    await close()
  })

  test('rejects an invalid key and opens the requested page with a valid one', async () => {
    const { page, close } = await browser.open(null)
    await page.goto('/volumes')
    await page.getByLabel('API key').fill('bk_nonsense')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').getByText('This is not an API key').waitFor()
    await page.getByLabel('API key').fill(browser.server.demoKey)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    const cookies = await page.context().cookies()
    expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict' }])
    await close()
  })
})
