/** What people do at the sign-in page of the console, with their mailbox on a real SMTP server. */
import type { Page } from 'playwright-core'
import { textOf, type MailServer } from '../harness/mail-server.ts'
import { waitFor } from '../harness/wait.ts'

export const CODE = /^\d{4} \d{4}$/m

/** The newest match of the pattern in mail to the address that came after the first `before` messages. */
export function inMail(mails: MailServer, address: string, before: number, pattern: RegExp): Promise<string> {
  return waitFor(`mail to ${address}`, () =>
    mails.received
      .slice(before)
      .filter(({ to }) => to.includes(address))
      .map((mail) => pattern.exec(textOf(mail).replaceAll('\r', ''))?.[0])
      .findLast((match) => match !== undefined),
  )
}

/** Returns the code that the step sends. */
export async function codeAfter(mails: MailServer, address: string, send: () => Promise<unknown>): Promise<string> {
  const before = mails.received.length
  await send()
  return inMail(mails, address, before, CODE)
}

/** On the sign-in page. */
export async function signInWithCode(page: Page, mails: MailServer, address: string): Promise<void> {
  await page.getByLabel('Email address').fill(address)
  const code = await codeAfter(mails, address, () => page.getByRole('button', { name: 'Send code' }).click())
  await page.getByLabel('Code', { exact: true }).fill(code)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

/** Signs in and accepts the account that the operator opened. */
export async function enterAccount(
  page: Page,
  mails: MailServer,
  owner: { readonly email: string; readonly name: string },
): Promise<void> {
  await page.goto('/sign-in')
  await signInWithCode(page, mails, owner.email)
  await page.getByRole('heading', { level: 1, name: 'Choose an account' }).waitFor()
  await page.getByRole('heading', { name: `Join ${owner.name}` }).waitFor()
  await page.getByRole('button', { name: 'Accept' }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
}
