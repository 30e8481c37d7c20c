/** Payouts in the browser: a supplier says where it is paid, and an operator drafts, approves, exports and settles a run. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, DAY_MS, systemClock, toDate } from '../../src/base/instant.ts'
import { usd } from '../../src/base/money.ts'
import { readBalances } from '../../src/store/ledger/ledger.ts'
import { earnAtOnce, IBAN } from '../harness/payout.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { needs } from '../needs.ts'

needs('browser')

describe.skipIf(whyNoBrowser() !== undefined)(`payouts${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let supplier: { id: string; key: string }

  beforeAll(async () => {
    browser = await openBrowser()
    supplier = await browser.server.account({ platformFeePercentage: 10 })
    await earnAtOnce(browser.server.app, supplier.id, usd('123.456'))
  })
  afterAll(() => browser.close())

  test('a supplier enters a bank account, which waits for 72 hours', async () => {
    const { page, visit, look, close } = await browser.open(supplier.key)
    await visit('/supply/earnings', 'Earnings')
    await page.getByText('The next run pays nothing: not set up.').waitFor()
    await look('earnings-without-details')
    await page.getByRole('button', { name: 'Use a bank account' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Account holder').fill('North Racks Ltd')
    await dialog.getByLabel('IBAN').fill('DE89 3704 0044 0532 0130 01')
    await dialog.getByRole('button', { name: 'Save bank account' }).click()
    await dialog.getByText('its check digits are wrong').waitFor()
    await look('payout-bank')
    await dialog.getByLabel('IBAN').fill(IBAN)
    await expectDuring(page.getByText('Bank account saved'), () =>
      dialog.getByRole('button', { name: 'Save bank account' }).click(),
    )
    await page.getByText('new details wait for 72 hours').waitFor()
    await page.getByText('…3000').waitFor()
    await look('earnings-new-details')
    expect(await page.getByText(IBAN).count()).toBe(0)
    await close()
  })

  test('an operator pays it: draft, approval, bank file, settlement', async () => {
    const { db } = browser.server.app.database
    const changedAt = toDate(addMs(systemClock.now(), -4 * DAY_MS))
    await db.updateTable('payout_account').set({ changed_at: changedAt }).execute()
    const { page, visit, look, close } = await browser.open(browser.server.operatorKey)
    await visit('/operator/payouts', 'Payouts')
    await page.getByText('No payout runs yet').waitFor()
    await page.getByText('A run drafted now would pay 1 of them.').waitFor()
    await expectDuring(page.getByText('Payout run drafted'), () =>
      page.getByRole('button', { name: 'Draft a run' }).click(),
    )
    await page.getByText('To approve').waitFor()
    await look('payouts')
    await page.getByRole('button', { name: /^Open prun_/ }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click()
    await look('payout-run')
    await page.getByRole('button', { name: 'Approve run' }).click()
    await page.getByRole('button', { name: 'Export bank file' }).click()
    const downloaded = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Export once' }).click()
    const text = await readFile(await (await downloaded).path(), 'utf8')
    expect(text).toContain(`North Racks Ltd,${IBAN},,,,123.45,USD`)
    await page.getByRole('button', { name: 'Settle' }).click()
    await page.getByLabel('Reason').fill('statement of the bank')
    await page.getByRole('dialog').last().getByRole('button', { name: 'Settle' }).click()
    await page.getByRole('dialog').getByText('Paid').first().waitFor()
    await look('payout-run-paid')
    expect((await readBalances(db, supplier.id)).earnings).toBe(usd('0.006'))
    await close()
  })

  test('the supplier sees it', async () => {
    const { page, visit, look, close } = await browser.open(supplier.key)
    await visit('/supply/earnings', 'Earnings')
    const row = page.getByRole('table', { name: 'Payouts' }).getByRole('row').filter({ hasText: '$123.45' })
    await row.getByText('Paid').waitFor()
    expect(await row.count()).toBe(1)
    await look('earnings-paid')
    await close()
  })
})
