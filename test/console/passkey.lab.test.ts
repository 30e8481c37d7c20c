/** Passkeys in a real browser with a virtual authenticator: added under Security, then used to sign in without an address. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { succeed } from '../harness/journey.ts'
import { startMailServer, type MailServer } from '../harness/mail-server.ts'
import { ownPorts } from '../harness/own-port.ts'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { enterAccount } from '../lab/sign-in-page.ts'
import { needs } from '../needs.ts'

needs('browser')

const port = ownPorts()

const authenticator = {
  protocol: 'ctap2',
  transport: 'internal',
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
} as const

describe.skipIf(whyNoBrowser() !== undefined)(`passkeys${browserLeftOut}`, () => {
  let mails: MailServer
  let browser: ConsoleBrowser

  beforeAll(async () => {
    mails = await startMailServer()
    browser = await openBrowser({
      env: {
        BERTH_HOST: 'localhost',
        BERTH_PORT: String(port),
        BERTH_PUBLIC_URL: `http://localhost:${port}`,
        BERTH_SMTP_URL: mails.url,
        BERTH_MAIL_FROM: 'berth@cloud.example',
      },
    })
  })
  afterAll(async () => {
    await browser?.close()
    await mails.close()
  })

  test('a person adds a passkey, signs in with it, and gets recovery codes', async () => {
    const owner = { email: 'owner@example.test', name: 'Passkey lab' }
    await succeed(browser.server.operator, 'POST', '/v2/operator/accounts', {
      name: owner.name,
      ownerEmail: owner.email,
    })
    const { page, context, look, close } = await browser.open(null)
    const devtools = await context.newCDPSession(page)
    await devtools.send('WebAuthn.enable')
    await devtools.send('WebAuthn.addVirtualAuthenticator', { options: authenticator })
    await enterAccount(page, mails, owner)
    await page.goto('/security')
    await page.getByLabel('Name of a new passkey').fill('Laptop')
    await page.getByRole('button', { name: 'Add passkey' }).click()
    await page.getByRole('button', { name: 'Remove Laptop' }).waitFor()
    await look('security-passkey')
    await page.getByRole('button', { name: 'Create recovery codes' }).click()
    const shownCodes = page.getByRole('dialog', { name: 'Recovery codes' }).getByRole('region')
    const codes = await shownCodes.innerText()
    expect(codes.trim().split('\n')).toHaveLength(10)
    await page.getByRole('button', { name: 'I have saved them' }).click()

    await context.clearCookies()
    await page.goto('/sign-in?next=/volumes')
    await page.getByRole('button', { name: 'Use a passkey' }).click()
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    await devtools.send('WebAuthn.disable')
    await close()
  })
})
