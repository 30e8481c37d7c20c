/**
 * Passkeys in a real browser with a virtual authenticator: added under Security, used to sign in without an address,
 * required of members, and replaced by recovery codes. Promises 29 and 30 of sign-in.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Page } from 'playwright-core'
import { succeed } from '../harness/journey.ts'
import { startMailServer, type MailServer } from '../harness/mail-server.ts'
import { ownPorts } from '../harness/own-port.ts'
import { browserLeftOut, expectDuring, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { enterAccount, signInWithCode } from '../lab/sign-in-page.ts'
import { addAuthenticator, addPasskey } from '../lab/virtual-authenticator.ts'
import { needs } from '../needs.ts'

needs('browser')

const port = ownPorts()

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

  /** A browser of the owner of a new account, with an authenticator that confirms everything. */
  async function enterWithAuthenticator(name: string) {
    const owner = { email: `${name}@example.test`, name: `Lab of ${name}` }
    await succeed(browser.server.operator, 'POST', '/v2/operator/accounts', {
      name: owner.name,
      ownerEmail: owner.email,
    })
    const opened = await browser.open(null)
    const removeAuthenticator = await addAuthenticator(opened.page)
    await enterAccount(opened.page, mails, owner)
    const close = async (): Promise<void> => {
      await removeAuthenticator()
      await opened.close()
    }
    return { ...opened, owner, close }
  }

  /** In the dialog that shows them. */
  async function readCodes(page: Page): Promise<string[]> {
    const shown = page.getByRole('dialog', { name: 'Recovery codes' }).getByRole('region')
    const codes = (await shown.innerText()).trim().split('\n')
    await page.getByRole('button', { name: 'I have saved them' }).click()
    return codes
  }

  test('a person adds a passkey, signs in with it, and gets recovery codes', async () => {
    const { page, context, look, close } = await enterWithAuthenticator('one')
    await page.goto('/security')
    await addPasskey(page)
    await look('security-passkey')
    await page.getByRole('button', { name: 'Create recovery codes' }).click()
    expect(await readCodes(page)).toHaveLength(10)
    await page.getByRole('button', { name: 'Rename Laptop' }).click()
    const rename = page.getByRole('dialog', { name: 'Rename Laptop' })
    await rename.getByLabel('Name', { exact: true }).fill('Work computer')
    await rename.getByRole('button', { name: 'Rename', exact: true }).click()
    await page.getByRole('button', { name: 'Remove Work computer' }).waitFor()

    await context.clearCookies()
    await page.goto('/sign-in?next=/volumes')
    await page.getByRole('button', { name: 'Use a passkey' }).click()
    await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    await close()
  })

  test('promise 29 and 30: an owner requires passkeys of members; recovery codes stand for one that was lost', async () => {
    const { page, look, owner, close } = await enterWithAuthenticator('two')
    const box = page.getByLabel('Members must confirm with a passkey')
    const ask = page.getByRole('dialog', { name: 'Require passkeys?' })
    const proof = page.getByRole('dialog', { name: 'Confirm that it is you' })
    await page.goto('/members')
    await box.click()
    await ask.getByText('1 member has no passkey yet', { exact: false }).waitFor()
    await look('members-require-passkey')
    await ask.getByRole('button', { name: 'Require passkeys' }).click()
    await proof.getByText('you have none', { exact: false }).waitFor()
    await look('step-up-no-passkey')
    await proof.getByRole('button', { name: 'Close' }).click()
    await ask.getByRole('alert').getByText('This needs a session that showed a passkey', { exact: false }).waitFor()
    expect(await box.isChecked()).toBe(false)

    await page.goto('/security')
    await addPasskey(page)
    await page.getByRole('button', { name: 'Create recovery codes' }).click()
    const [first = ''] = await readCodes(page)

    // A code by email is recent, but not enough for new recovery codes. A recovery code is.
    const other = await browser.open(null)
    await other.page.goto('/sign-in?next=/security')
    await signInWithCode(other.page, mails, owner.email)
    await other.page.getByRole('button', { name: 'Create recovery codes' }).click()
    const proofThere = other.page.getByRole('dialog', { name: 'Confirm that it is you' })
    await proofThere.getByRole('button', { name: 'Use a recovery code' }).click()
    await proofThere.getByLabel('Recovery code', { exact: true }).fill(first)
    await other.look('step-up-recovery-code')
    await proofThere.getByRole('button', { name: 'Use this code' }).click()
    const [next = ''] = await readCodes(other.page)
    expect(next).not.toBe(first)

    await page.goto('/members')
    await box.click()
    await ask.getByText('All members have a passkey', { exact: false }).waitFor()
    await ask.getByRole('button', { name: 'Require passkeys' }).click()
    await page.getByRole('checkbox', { name: 'Members must confirm with a passkey', checked: true }).waitFor()
    await look('members-passkey-required')

    await other.context.clearCookies()
    await other.page.goto('/sign-in?next=/volumes')
    await signInWithCode(other.page, mails, owner.email)
    await other.page.getByRole('heading', { level: 1, name: 'A second factor is required' }).waitFor()
    await other.page.getByRole('button', { name: 'Use a recovery code' }).click()
    await other.look('access-recovery-code')
    // It ended with the new ones.
    await other.page.getByLabel('Recovery code', { exact: true }).fill(first)
    await other.page.getByRole('button', { name: 'Use this code' }).click()
    await other.page.getByRole('alert').getByText('This recovery code is wrong', { exact: false }).waitFor()
    await other.page.getByLabel('Recovery code', { exact: true }).fill(next)
    await other.page.getByRole('button', { name: 'Use this code' }).click()
    await other.page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor()
    await other.close()
    await close()
  })

  test('the operator resets the passkeys of a person, whose sessions end', async () => {
    const { page, owner, close } = await enterWithAuthenticator('three')
    await page.goto('/security')
    await addPasskey(page)
    const office = await browser.open(browser.server.operatorKey)
    await office.visit('/operator/people', 'People')
    await office.page.getByRole('button', { name: `Reset passkeys of ${owner.email}` }).click()
    const dialog = office.page.getByRole('dialog', { name: `Reset the passkeys of ${owner.email}?` })
    await dialog.getByLabel('Reason').fill('lost the phone; called back')
    await office.look('operator-people-reset-passkeys')
    await expectDuring(office.page.getByText(`Removed 1 passkey of ${owner.email}`), () =>
      dialog.getByRole('button', { name: 'Reset passkeys' }).click(),
    )
    await office.close()

    await page.goto('/sign-in?next=/security')
    await signInWithCode(page, mails, owner.email)
    await page.getByRole('heading', { level: 1, name: 'Security' }).waitFor()
    await page.getByLabel('Name of a new passkey').waitFor()
    await page.getByRole('button', { name: 'Create recovery codes' }).waitFor()
    expect(await page.getByRole('button', { name: 'Remove Laptop' }).count()).toBe(0)
    await close()
  })
})
