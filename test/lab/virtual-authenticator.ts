/** An authenticator of the browser that keeps passkeys and confirms everything. */
import type { Page } from 'playwright-core'

const options = {
  protocol: 'ctap2',
  transport: 'internal',
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
} as const

/** Returns a function that takes it away. */
export async function addAuthenticator(page: Page): Promise<() => Promise<void>> {
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('WebAuthn.enable')
  await devtools.send('WebAuthn.addVirtualAuthenticator', { options })
  return async () => {
    await devtools.send('WebAuthn.disable')
  }
}

/** On the page Security. */
export async function addPasskey(page: Page): Promise<void> {
  await page.getByLabel('Name of a new passkey').fill('Laptop')
  await page.getByRole('button', { name: 'Add passkey' }).click()
  await page.getByRole('button', { name: 'Remove Laptop' }).waitFor()
}
