/** Signing in at a real OpenID provider in a real browser, set up on the operator's page. Promises 3 and 16 of sign-in. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { providerPath } from '../../src/contract/session.ts'
import { succeed } from '../harness/journey.ts'
import { startMailServer, type MailServer } from '../harness/mail-server.ts'
import { CLIENT_ID, CLIENT_SECRET, startOidc, type OidcTest } from '../harness/oidc.ts'
import { ownPorts } from '../harness/own-port.ts'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser, type ConsolePage } from '../lab/browser.ts'
import { enterAccount } from '../lab/sign-in-page.ts'
import { addAuthenticator, addPasskey } from '../lab/virtual-authenticator.ts'
import { needs } from '../needs.ts'

needs('browser')

const port = ownPorts()
// Browsers have passkeys on localhost, but not on 127.0.0.1.
const PUBLIC_URL = `http://localhost:${port}`

describe.skipIf(whyNoBrowser() !== undefined)(`single sign-on${browserLeftOut}`, () => {
  let mails: MailServer
  let oidc: OidcTest
  let broken: OidcTest
  let browser: ConsoleBrowser
  let accounts = 0

  beforeAll(async () => {
    mails = await startMailServer()
    oidc = await startOidc(['corp', 'second'].map((id) => `${PUBLIC_URL}${providerPath(id)}/callback`))
    broken = await startOidc([`${PUBLIC_URL}${providerPath('broken')}/callback`])
    browser = await openBrowser({
      env: {
        BERTH_HOST: 'localhost',
        BERTH_PORT: String(port),
        BERTH_PUBLIC_URL: PUBLIC_URL,
        BERTH_SMTP_URL: mails.url,
        BERTH_MAIL_FROM: 'berth@cloud.example',
      },
    })
  })
  afterAll(async () => {
    await browser?.close()
    await oidc.close()
    await broken.close()
    await mails.close()
  })

  async function openAccount(): Promise<{ email: string; name: string }> {
    accounts += 1
    const owner = { email: `owner-${accounts}@example.test`, name: `Lab ${accounts}` }
    const { operator } = browser.server
    await succeed(operator, 'POST', '/v2/operator/accounts', { name: owner.name, ownerEmail: owner.email })
    return owner
  }

  /** The provider is another site. */
  function expectOnlyProvider({ faults }: Pick<ConsolePage, 'faults'>, { issuer } = oidc): void {
    expect(faults().filter((fault) => !fault.startsWith(`a request to ${issuer}`))).toEqual([])
  }

  test('promise 3: the operator adds a provider; a person with a proved address connects it first, then signs in with it', async () => {
    const operator = await browser.open(browser.server.operatorKey)
    await operator.visit('/operator/sso', 'Sign-in providers')
    await operator.look('operator-sso-empty')
    await operator.page.getByRole('button', { name: 'Add provider' }).first().click()
    const dialog = operator.page.getByRole('dialog')
    await dialog.getByLabel('ID', { exact: true }).fill('corp')
    await dialog.getByLabel('Name').fill('Example Corp')
    await dialog.getByLabel('Issuer').fill(oidc.issuer)
    await dialog.getByLabel('Client ID').fill(CLIENT_ID)
    await dialog.getByLabel('Client secret').fill(CLIENT_SECRET)
    await operator.look('operator-sso-add')
    await dialog.getByRole('button', { name: 'Add provider' }).click()
    const tested = operator.page.getByRole('dialog', { name: 'Test Example Corp' })
    expect(await tested.getByLabel('Redirect URI').inputValue()).toBe(`${PUBLIC_URL}${providerPath('corp')}/callback`)
    await tested.getByText('try a sign-in in a new tab').waitFor()
    await operator.look('operator-sso-test')
    await tested.getByRole('button', { name: 'Done' }).click()
    await operator.page.getByRole('row', { name: /Example Corp/ }).waitFor()
    await operator.look('operator-sso')
    await operator.close()

    // Promise 3: somebody proved the address before, so the provider's word is not enough.
    const owner = await openAccount()
    const opened = await browser.open(null)
    const { page, look, close } = opened
    await enterAccount(page, mails, owner)
    oidc.person = { sub: 'one', claims: { email: owner.email, email_verified: true } }
    const stranger = await browser.open(null)
    await stranger.page.goto('/sign-in?next=/volumes')
    await stranger.look('sign-in-providers')
    await stranger.page.getByRole('button', { name: 'Continue with Example Corp' }).click()
    await stranger.page.waitForURL(/\/sign-in\?.*error=sso_not_connected/)
    await stranger.page.getByRole('note').getByText('Example Corp', { exact: false }).waitFor()
    expectOnlyProvider(stranger)

    await page.goto('/security')
    await page.getByRole('button', { name: 'Connect Example Corp' }).click()
    await page.waitForURL(/\/security/)
    await page.getByRole('button', { name: 'Disconnect Example Corp' }).waitFor()
    expectOnlyProvider(opened)
    await look('security-provider')

    await stranger.page.getByRole('button', { name: 'Continue with Example Corp' }).click()
    await stranger.page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    await stranger.page.goto('/security')
    await stranger.page
      .getByRole('row', { name: /Example Corp.*/ })
      .first()
      .waitFor()
    expectOnlyProvider(stranger)
    await stranger.close()
    await close()
  })

  test('promise 16: while a provider is down the page names it, and codes, passkeys and keys work', async () => {
    const { operator, operatorKey } = browser.server
    const settings = { kind: 'oidc', name: 'Broken Corp', issuer: broken.issuer, clientId: CLIENT_ID }
    await succeed(operator, 'POST', '/v2/operator/sso', { ...settings, id: 'broken', clientSecret: CLIENT_SECRET })
    broken.fault = 'down'
    const owner = await openAccount()
    const { page, context, look, faults, close } = await browser.open(null)
    const removeAuthenticator = await addAuthenticator(page)
    const toBroken = page.getByRole('button', { name: 'Continue with Broken Corp' })
    const warning = page.getByText('Broken Corp is not reachable at the moment')

    await page.goto('/sign-in?next=/volumes')
    await toBroken.waitFor()
    expect(await warning.count()).toBe(0)
    await toBroken.click()
    await page.waitForURL(/error=sso_provider_down/)
    await page.getByRole('note').getByText('Broken Corp', { exact: false }).waitFor()
    await warning.waitFor()
    await look('sign-in-provider-down')
    // Also for those who did not try it.
    await page.goto('/sign-in')
    await warning.waitFor()

    await enterAccount(page, mails, owner)
    await page.goto('/security')
    await addPasskey(page)
    await context.clearCookies()
    await page.goto('/sign-in?next=/volumes')
    await warning.waitFor()
    await page.getByRole('button', { name: 'Use a passkey' }).click()
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    await context.clearCookies()
    await page.goto('/sign-in?next=/volumes')
    await warning.waitFor()
    await page.getByText('Sign in with an API key').click()
    await page.getByLabel('API key').fill(operatorKey)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    await context.clearCookies()

    // It works again as soon as it answers.
    broken.fault = undefined
    broken.person = { sub: 'two', claims: { email: 'new@example.test', email_verified: true } }
    await page.goto('/sign-in')
    await toBroken.click()
    await page.waitForURL(/error=sign_up_closed/)
    expect(await warning.count()).toBe(0)
    expectOnlyProvider({ faults }, broken)
    await removeAuthenticator()
    await close()
  })
})
