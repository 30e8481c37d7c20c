/**
 * People in a real browser, with a mailbox on a real SMTP server: from an invitation to the first rental, signing in with a
 * code, several accounts, sessions, and what needs a recent sign-in. Promises 18 to 23 and 30 of sign-in.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Page } from 'playwright-core'
import { MINUTE_MS, SECOND_MS, systemClock } from '../../src/base/instant.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { succeed } from '../harness/journey.ts'
import { startMailServer, type MailServer } from '../harness/mail-server.ts'
import { testSshKey } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { CODE, codeAfter, enterAccount, inMail, signInWithCode } from '../lab/sign-in-page.ts'
import { manualClock } from '../sim/clock.ts'
import { needs } from '../needs.ts'

needs('browser')

const PUBLIC_URL = 'https://cloud.example'
const PHONE = { width: 390, height: 780 }

describe.skipIf(whyNoBrowser() !== undefined)(`people${browserLeftOut}`, () => {
  const clock = manualClock(systemClock.now())
  let mails: MailServer
  let browser: ConsoleBrowser
  let accounts = 0

  beforeAll(async () => {
    mails = await startMailServer()
    browser = await openBrowser({
      clock,
      env: { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' },
    })
  })
  afterAll(async () => {
    await browser?.close()
    await mails.close()
  })

  /** An account of a person who has never signed in, with money. */
  async function openAccount(name = 'Lab'): Promise<{ id: string; name: string; email: string }> {
    accounts += 1
    const [email, called] = [`owner-${accounts}@example.test`, `${name} ${accounts}`]
    const { operator } = browser.server
    const { account } = await succeed(operator, 'POST', '/v2/operator/accounts', { name: called, ownerEmail: email })
    const { id } = account as { id: string }
    await succeed(operator, 'POST', `/v2/operator/accounts/${id}/credit`, { amountUsd: '50', reason: 'for the test' })
    return { id, name: called, email }
  }

  /** Sends an invitation on the page Members. Returns the path of the link in the mail. */
  async function invite(page: Page, address: string, role = 'member'): Promise<string> {
    const before = mails.received.length
    await page.goto('/members')
    await page.getByRole('button', { name: 'Invite' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Email address').fill(address)
    await dialog.getByLabel('Role').selectOption(role)
    await dialog.getByRole('button', { name: 'Send invitation' }).click()
    await dialog.waitFor({ state: 'detached' })
    return (await inMail(mails, address, before, /https:\/\/cloud\.example\/invitations\/\S+/)).slice(PUBLIC_URL.length)
  }

  test('promise 20 to 23: from the mail of an invitation to the first rental', async () => {
    const owner = await openAccount('Rocket lab')
    const guest = `guest-${accounts}@example.test`
    const { page, look, close } = await browser.open(null)
    await enterAccount(page, mails, owner)
    const first = await invite(page, guest)
    await page.getByRole('row', { name: new RegExp(guest) }).waitFor()
    await look('members-invitations')
    const before = mails.received.length
    await page.getByRole('button', { name: `Send again to ${guest}` }).click()
    const link = (await inMail(mails, guest, before, /https:\/\/cloud\.example\/invitations\/\S+/)).slice(
      PUBLIC_URL.length,
    )
    expect(link).not.toBe(first)

    // The sender opens the link: nothing is offered to them, and nothing changes.
    await page.goto(link)
    await page.getByText(`There is no open invitation at this address for ${owner.email}`).waitFor()
    await look('invitation-of-another')
    await page.getByRole('button', { name: 'Sign in as somebody else' }).click()
    await page.waitForURL(/\/sign-in\?next=/)
    await look('sign-in-people')
    await signInWithCode(page, mails, guest)
    await page.waitForURL(new RegExp(`${link}$`))
    await page.getByRole('heading', { name: `Join ${owner.name}` }).waitFor()
    await page.getByText(owner.email).waitFor()
    await look('invitation')
    // The link of the message before has ended.
    await page.goto(first)
    await page.getByText(`There is no open invitation at this address for ${guest}`).waitFor()
    await page.goto(link)
    await page.getByRole('button', { name: 'Accept' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await page.getByRole('button', { name: `Signed in to the account ${owner.name}` }).waitFor()

    await page.goto('/ssh-keys')
    await page.getByRole('button', { name: 'Add key' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Public key').fill(testSshKey)
    await dialog.getByRole('button', { name: 'Add key' }).click()
    await page
      .getByRole('table', { name: 'SSH keys' })
      .getByText(/^SHA256:/)
      .waitFor()
    await page.goto('/rent?region=mock-region&gpu=h100&count=1')
    await page.getByLabel('Label', { exact: true }).fill('first')
    await page.getByRole('button', { name: /^Rent for \$/ }).click()
    await page.waitForURL(/\/rentals\/\d+$/)
    const running = page.getByText('Running', { exact: true })
    await waitFor('the machine to run', async () => {
      clock.advance(SECOND_MS)
      return (await running.count()) > 0
    })
    await page.goto(link)
    await page.getByText(`There is no open invitation at this address for ${guest}`).waitFor()
    await close()
  })

  test('promise 18: a code is typed on the same page, wrong ones are counted, and a new one ends the one before', async () => {
    const owner = await openAccount()
    const { page, look, close } = await browser.open(null, PHONE)
    await page.goto('/volumes')
    await page.getByRole('heading', { level: 1, name: 'Sign in to Berth' }).waitFor()
    await page.getByLabel('Email address').fill(owner.email)
    const send = page.getByRole('button', { name: 'Send code' })
    const first = await codeAfter(mails, owner.email, () => send.click())
    await page.getByLabel('Code', { exact: true }).fill(first === '1111 1111' ? '2222 2222' : '1111 1111')
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('alert').getByText('4 tries are left', { exact: false }).waitFor()
    await look('sign-in-code-phone')
    const second = await codeAfter(mails, owner.email, () =>
      page.getByRole('button', { name: 'Send another code' }).click(),
    )
    await page.getByText('Another code is on its way', { exact: false }).waitFor()
    if (first !== second) {
      await page.getByLabel('Code', { exact: true }).fill(first)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      await page.getByRole('alert').getByText('tries are left', { exact: false }).waitFor()
    }
    await page.getByLabel('Code', { exact: true }).fill(second)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    // Who was only added by others accepts the account first, then the page that was asked for opens.
    await page.getByRole('heading', { level: 1, name: 'Choose an account' }).waitFor()
    await look('choose-account-phone')
    expect(new URL(page.url()).search).toBe('?next=%2Fvolumes')
    await close()
  })

  test('promise 19: an address that may not sign in sees the same page', async () => {
    const { page, close } = await browser.open(null)
    await page.goto('/sign-in')
    await page.getByLabel('Email address').fill('nobody@example.test')
    await page.getByRole('button', { name: 'Send code' }).click()
    await page.getByText('A code is on its way to nobody@example.test', { exact: false }).waitFor()
    await page.getByRole('button', { name: 'Use another address' }).click()
    expect(await page.getByLabel('Email address').inputValue()).toBe('nobody@example.test')
    await page.getByText('Sign in with an API key').click()
    await page.getByLabel('API key').fill(browser.server.demoKey)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    // A key has no page of its own: no request for a person is sent.
    await page.goto('/security')
    await page.getByText('You are signed in with an API key').waitFor()
    await close()
  })

  test('switches between accounts, also in other tabs, and shows offers that wait', async () => {
    const one = await openAccount('First')
    const { page, context, look, close } = await browser.open(null)
    await enterAccount(page, mails, one)
    const other = await browser.server.account({ usd: '5' })
    await succeed(other.call, 'POST', '/v2/members', { email: one.email, role: 'viewer' })
    const { name } = (await succeed(other.call, 'GET', '/v2/users/me')).account as { name: string }
    await page.reload()
    const menu = page.getByRole('button', { name: /^Signed in to the account/ })
    await page.getByRole('button', { name: /1 open invitation/ }).click()
    await look('account-menu-offer')
    await page.getByRole('link', { name: `Join ${name}` }).click()
    await page.getByRole('button', { name: 'Accept' }).click()
    await page.getByRole('button', { name: `Signed in to the account ${name}` }).waitFor()

    const tab = await context.newPage()
    await tab.goto('/volumes')
    await tab.getByRole('button', { name: `Signed in to the account ${name}` }).waitFor()
    await menu.click()
    await look('account-menu-person')
    await page.getByRole('button', { name: new RegExp(`${one.name} *Owner`) }).click()
    await page.getByRole('button', { name: `Signed in to the account ${one.name}` }).waitFor()
    await tab.bringToFront()
    await tab.getByRole('button', { name: `Signed in to the account ${one.name}` }).waitFor()
    expect(new URL(tab.url()).pathname).toBe('/volumes')
    await close()
  })

  test('promise 14 and 30: lists sessions, ends them, and asks for a recent sign-in in place', async () => {
    const owner = await openAccount()
    const { page, look, close } = await browser.open(null)
    await enterAccount(page, mails, owner)
    const elsewhere = await browser.open(null)
    await elsewhere.page.goto('/sign-in')
    await signInWithCode(elsewhere.page, mails, owner.email)
    await elsewhere.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()

    await page.goto('/security')
    await page.getByText('This browser').waitFor()
    await look('security')
    const others = page.getByRole('row').filter({ has: page.getByRole('button', { name: /^Sign out/ }) })
    expect(await others.count()).toBe(1)
    await others.getByRole('button').click()
    await others.waitFor({ state: 'detached' })
    await elsewhere.page.goto('/volumes')
    await elsewhere.page.getByRole('heading', { level: 1, name: 'Sign in to Berth' }).waitFor()
    await elsewhere.close()

    clock.advance(16 * MINUTE_MS)
    const before = mails.received.length
    await page.goto('/members')
    await page.getByRole('button', { name: 'Invite' }).click()
    const dialog = page.getByRole('dialog', { name: 'Invite a person' })
    await dialog.getByLabel('Email address').fill('second-owner@example.test')
    await dialog.getByLabel('Role').selectOption('owner')
    await dialog.getByRole('button', { name: 'Send invitation' }).click()
    const proof = page.getByRole('dialog', { name: 'Confirm that it is you' })
    await proof.getByText(owner.email).waitFor()
    await look('step-up')
    await proof.getByRole('button', { name: 'Send code' }).click()
    await proof.getByLabel('Code').fill(await inMail(mails, owner.email, before, CODE))
    await expectDuring(page.getByText('Sent an invitation to second-owner@example.test'), () =>
      proof.getByRole('button', { name: 'Confirm', exact: true }).click(),
    )
    await page.getByRole('row', { name: /second-owner@example.test/ }).waitFor()
    await inMail(mails, 'second-owner@example.test', before, /https:\/\/cloud\.example\/invitations\/\S+/)
    await close()
  })

  test('the operator lists people and mail, disables a person, and invites one to open an account', async () => {
    const owner = await openAccount('Watched')
    const guest = await browser.open(null)
    await enterAccount(guest.page, mails, owner)
    const { page, visit, look, close } = await browser.open(browser.server.operatorKey)
    await visit('/operator/people', 'People')
    await page.getByLabel('Search by address, name or ID').fill(owner.email)
    const row = page.getByRole('row', { name: new RegExp(owner.email) })
    await row.getByText('Active').waitFor()
    await look('operator-people')
    await row.getByRole('button', { name: `Disable ${owner.email}` }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('left the company')
    await dialog.getByRole('button', { name: 'Disable' }).click()
    await row.getByText('Disabled').waitFor()
    await guest.page.goto('/volumes')
    await guest.page.getByRole('heading', { level: 1, name: 'Sign in to Berth' }).waitFor()
    await guest.close()

    const newcomer = `newcomer-${accounts}@example.test`
    mails.refuse = (address) => (address === newcomer ? 550 : undefined)
    await page.getByRole('button', { name: 'Invite to open an account' }).click()
    await dialog.getByLabel('Email address').fill(newcomer)
    await dialog.getByRole('button', { name: 'Send invitation' }).click()
    await page.getByRole('row', { name: new RegExp(newcomer) }).waitFor()
    await look('operator-people-invitation')
    await visit('/operator/mail', 'Mail')
    await page.getByLabel('Search by address').fill(newcomer)
    const mail = page.getByRole('row', { name: new RegExp(newcomer) })
    await mail.getByText('Failed').waitFor()
    await mail.getByText('refused by the test', { exact: false }).waitFor()
    expect(mails.received.filter(({ to }) => to.includes(newcomer))).toEqual([])
    await look('operator-mail')
    mails.refuse = () => undefined
    await close()
  })
})
