/**
 * Sign-in with a code by email. The code is typed in the browser that asked for it, so an intercepted mail alone opens
 * nothing, and there is no link that a mail scanner could open. Whether the address is known is not told: the answer, and
 * the work behind it, are the same.
 */
import { randomInt, timingSafeEqual } from 'node:crypto'
import { randomId, sha256 } from '../../base/id.ts'
import { addMs, HOUR_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { clientNetworkOf } from '../../base/net/client-network.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { lockAndCount } from '../../store/account/client-network.ts'
import {
  countEmailCodes,
  countWrongTry,
  deleteEmailCodes,
  endEmailCode,
  insertEmailCode,
  lockAddress,
  lockEmailCode,
  type EmailCode,
} from '../../store/account/email-code.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { App } from '../app.ts'
import { mayUseAddress } from './sign-up.ts'
import { queueTemplateMail } from './template-mail.ts'

const CODE_DIGITS = 8

export interface CodeRequest {
  readonly address: string
  /** The hash of the cookie of the browser that asks. */
  readonly flowHash: Buffer
  readonly purpose: EmailCode['purpose']
  /** An identity whose provider did not verify the address; it belongs to whoever types the code. */
  readonly identitySealed: string | null
  /** The name of the provider of that identity. */
  readonly connects?: string
  /** For the message: where the code was asked for. */
  readonly browser: string
  readonly ipAddress: string
}

/** Sends a code. It ends the codes before it. */
export async function sendEmailCode(app: App, request: CodeRequest): Promise<Result<void>> {
  const { people } = app
  if (people === undefined) return fail('people_not_configured')
  if (app.mailer === undefined) return fail('mail_not_configured')
  const address = request.address.toLowerCase()
  return transact(app.database, async (tx): Promise<Result<void>> => {
    await lockAddress(tx, address)
    const now = tx.clock.now()
    const network = clientNetworkOf(request.ipAddress)
    const hourAgo = addMs(now, -HOUR_MS)
    if ((await countEmailCodes(tx, address, hourAgo)) >= limits.emailCodesPerHour) return fail('too_many_codes')
    if ((await lockAndCount(tx, 'email_code', network, hourAgo)) >= limits.emailCodesPerHourAndNetwork)
      return fail('too_many_codes_from_network')
    const code = String(randomInt(10 ** CODE_DIGITS)).padStart(CODE_DIGITS, '0')
    const id = randomId('code')
    await insertEmailCode(tx, {
      id,
      address,
      network,
      flowHash: request.flowHash,
      codeHash: codeHash(id, code),
      purpose: request.purpose,
      identitySealed: request.identitySealed,
      expiresAt: addMs(now, limits.emailCodeMs),
    })
    const { browser, ipAddress, connects } = request
    const mail = { template: 'sign-in-code', code, browser, address: ipAddress, connects } as const
    const isWithheld = !(await mayUseAddress(tx, people.signUp, address))
    await queueTemplateMail(app, tx, { to: address, mail, isWithheld, expiresAt: addMs(now, limits.emailCodeMs) })
    return ok(undefined)
  })
}

/** Returns the row of the right code. Wrong tries are counted, so the caller commits also after a failure. */
export async function redeemEmailCode(
  tx: Tx,
  flowHash: Buffer,
  purpose: EmailCode['purpose'],
  code: string,
): Promise<Result<EmailCode>> {
  const row = await lockEmailCode(tx, flowHash, purpose)
  if (row === undefined) return fail('code_ended')
  if (!timingSafeEqual(codeHash(row.id, code), row.code_hash)) {
    await countWrongTry(tx, row.id, limits.emailCodeTries)
    const triesLeft = limits.emailCodeTries - row.wrong_tries - 1
    return triesLeft === 0 ? fail('code_ended') : fail('wrong_code', { left: triesLeft })
  }
  await endEmailCode(tx, row.id)
  return ok(row)
}

/** Spaces are allowed, as people type them. */
export function readCode(text: string): string {
  return text.replaceAll(/[\s-]/g, '')
}

function codeHash(id: string, code: string): Buffer {
  return sha256(`${id} ${code}`)
}

const DELETE_BATCH = 1_000

/** Deletes old codes. True: there may be more. */
export async function expireEmailCodes(app: App): Promise<boolean> {
  const before = addMs(app.clock.now(), -limits.emailCodeKeptMs)
  return (await deleteEmailCodes(app.database.db, before, DELETE_BATCH)) === DELETE_BATCH
}
