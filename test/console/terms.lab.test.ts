/**
 * The operator's terms in a real browser: published on the operator's page, in the way of an order, and accepted on the
 * public page. Promise 58 of sign-in.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { succeed } from '../harness/journey.ts'
import { startMailServer, type MailServer } from '../harness/mail-server.ts'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { enterAccount } from '../lab/sign-in-page.ts'
import { needs } from '../needs.ts'

needs('browser')

const PHONE = { width: 390, height: 780 }

describe.skipIf(whyNoBrowser() !== undefined)(`terms${browserLeftOut}`, () => {
  let mails: MailServer
  let browser: ConsoleBrowser

  beforeAll(async () => {
    mails = await startMailServer()
    browser = await openBrowser({
      env: {
        BERTH_PUBLIC_URL: 'https://cloud.example',
        BERTH_SMTP_URL: mails.url,
        BERTH_MAIL_FROM: 'berth@cloud.example',
      },
    })
  })
  afterAll(async () => {
    await browser?.close()
    await mails.close()
  })

  test('promise 58: the operator publishes terms; an order leads to them, and an owner accepts', async () => {
    const { operator, operatorKey } = browser.server
    const guest = await browser.open(null, PHONE)
    await guest.visit('/terms', 'Terms')
    await guest.page.getByText('has published no terms', { exact: false }).waitFor()
    await guest.visit('/sign-in', 'Sign in to Berth')
    await guest.page.getByLabel('Email address').waitFor()

    const office = await browser.open(operatorKey)
    await office.visit('/operator/terms', 'Terms')
    await office.page.getByText('Accounts order without accepting anything.').waitFor()
    await office.look('operator-terms-empty')
    await office.page.getByRole('button', { name: 'Publish a version' }).click()
    const dialog = office.page.getByRole('dialog', { name: 'Publish terms' })
    await dialog
      .getByLabel('Text', { exact: true })
      .fill('You pay for what you order.\n\nMachines end when money does.')
    await office.look('operator-terms-publish')
    await dialog.getByLabel('Type publish to confirm').fill('publish')
    await dialog.getByRole('button', { name: 'Publish', exact: true }).click()
    await office.page.getByRole('heading', { name: 'Version 1' }).waitFor()
    await office.look('operator-terms')
    await office.close()

    await guest.visit('/sign-in', 'Sign in to Berth')
    await guest.page.getByRole('link', { name: 'Terms' }).click()
    await guest.page.getByText('Sign in to accept these terms.').waitFor()
    await guest.page.getByText('Machines end when money does.', { exact: true }).waitFor()
    await guest.look('terms-signed-out')
    await guest.close()

    const owner = { email: 'owner@example.test', name: 'Terms lab' }
    const { account } = await succeed(operator, 'POST', '/v2/operator/accounts', {
      name: owner.name,
      ownerEmail: owner.email,
    })
    const { id } = account as { id: string }
    await succeed(operator, 'POST', `/v2/operator/accounts/${id}/credit`, { amountUsd: '50', reason: 'for the test' })
    const { page, context, visit, look, close } = await browser.open(null)
    await enterAccount(page, mails, owner)
    await visit('/volumes', 'Volumes')
    await page.getByRole('button', { name: 'Create volume' }).first().click()
    const create = page.getByRole('dialog', { name: 'Create volume' })
    await create.getByLabel('Label').fill('scratch')
    await create.getByRole('button', { name: 'Create volume' }).click()
    const way = create.getByRole('alert').getByRole('link', { name: 'Read and accept the terms' })
    await way.waitFor()
    await look('volumes-terms')
    const [terms] = await Promise.all([context.waitForEvent('page'), way.click()])
    await terms.getByText(`You accept as an owner of ${owner.name}.`, { exact: false }).waitFor()
    await terms.getByRole('button', { name: 'Accept' }).click()
    await terms.getByText('You accepted these terms on', { exact: false }).waitFor()
    await terms.close()
    // What was typed is still there.
    await create.getByRole('button', { name: 'Create volume' }).click()
    await page.getByRole('row', { name: /scratch/ }).waitFor()

    await visit('/terms', 'Terms')
    await page.getByText('You accepted these terms on', { exact: false }).waitFor()
    expect(await page.getByRole('button', { name: 'Accept' }).count()).toBe(0)
    await look('terms-accepted')
    await visit('/security', 'Security')
    await page.getByText(', accepted ', { exact: false }).waitFor()
    await close()
  })

  test('a session with a key sees the terms and cannot accept them', async () => {
    const { visit, page, close } = await browser.open(browser.server.demoKey)
    await visit('/terms', 'Terms')
    await page.getByText('Only people accept terms', { exact: false }).waitFor()
    expect(await page.getByRole('button', { name: 'Accept' }).count()).toBe(0)
    await close()
  })
})
