/**
 * The login of this machine by a person in a browser (RFC 8628). The code is shown and never put into a link, so that
 * nobody can be led to approve the machine of somebody else; no browser is opened.
 */
import { hostname } from 'node:os'
import type { Client, Reply } from '../../client/client.ts'
import { isClientError, isRefusal } from '../../client/error.ts'
import { pause } from '../../client/pause.ts'
import { makeBar, noBar } from '../kit/bar.ts'
import { paint } from '../kit/screen.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'

/** A server without a public URL, or an older one, answers with one of these reasons. */
const cannotLogIn = ['people_not_configured', 'unknown_path'] as const
/** After this many failed requests in a row, the server is gone. */
const MAX_FAILURES = 12

export type DeviceToken = Reply<'redeemDeviceLogin'>

/** undefined: people do not sign in to this server. */
export async function logInByPerson(
  shell: Shell,
  client: Client,
  days: number | undefined,
): Promise<DeviceToken | undefined> {
  const login = await client
    .call('createDeviceLogin', { body: { host_name: deviceName(), ...(days === undefined ? {} : { days }) } })
    .catch((error: unknown) => {
      if (cannotLogIn.some((reason) => isRefusal(error, reason))) return undefined
      throw error
    })
  if (login === undefined) return undefined
  const code = paint(shell.color.error, 'bold', login.user_code)
  shell.writeError(`Open this page in a browser: ${login.verification_uri}\nand type the code:           ${code}\n`)
  return waitForPerson(shell, client, login)
}

async function waitForPerson(shell: Shell, client: Client, login: Reply<'createDeviceLogin'>): Promise<DeviceToken> {
  const bar = shell.person === undefined ? noBar : makeBar((text) => shell.writeError(text))
  const endsAtMs = performance.now() + login.expires_in * 1_000
  const never = new AbortController().signal
  let intervalS = login.interval
  let failures = 0
  try {
    for (;;) {
      const leftMs = endsAtMs - performance.now()
      if (leftMs <= 0) throw expired()
      bar.write(`Waiting until you approve it there; the code ends in ${Math.ceil(leftMs / 60_000)} minutes.`)
      await pause(intervalS * 1_000, never)
      try {
        return await client.call('redeemDeviceLogin', { body: { device_code: login.device_code } })
      } catch (error) {
        if (isRefusal(error, 'slow_down')) intervalS += login.interval
        else if (!isRefusal(error, 'authorization_pending')) failures = countFailure(error, failures)
        if (isRefusal(error, 'authorization_pending') || isRefusal(error, 'slow_down')) failures = 0
      }
    }
  } finally {
    bar.clear()
  }
}

/** A network that is down for a moment ends no login. */
function countFailure(error: unknown, failures: number): number {
  if (isRefusal(error, 'expired_token')) throw expired()
  if (isRefusal(error, 'access_denied')) {
    throw new CliError(exitCodes.refused, 'The login was refused in the browser.', ['To try again: berth login'])
  }
  const isPassing = isClientError(error) && (error.kind !== 'api' || error.status >= 500 || error.status === 429)
  if (!isPassing || failures + 1 >= MAX_FAILURES) throw error
  return failures + 1
}

function expired(): CliError {
  return new CliError(exitCodes.failed, 'Nobody approved the login in time.', ['To get a new code: berth login'])
}

/** Names of hosts may hold anything; the server accepts no control characters. */
function deviceName(): string {
  return hostname().replaceAll(/\p{C}/gu, '').slice(0, 255) || 'a device'
}
