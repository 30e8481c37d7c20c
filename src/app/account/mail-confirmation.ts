/**
 * A member confirms that notifications of an account may come by e-mail. Owners can add any address, and rentals and
 * budgets have names of the customer's choice, so without it an account could have us write to strangers. The one message
 * that an unconfirmed address gets has a fixed text, and is limited per account and per address.
 */
import { z } from 'zod'
import { addMs, DAY_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Vault } from '../../base/vault.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { confirmMail, findMember, lockAccount, lockPerson } from '../../store/account/account.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { countConfirmations, insertConfirmation } from '../../store/notice/mail.ts'
import { notAMember } from './api-key.ts'
import type { Actor, App } from '../app.ts'

interface Confirmation {
  readonly accountId: string
  readonly personId: string
}

const content = z.tuple([z.literal('confirm-mail'), z.string(), z.string(), z.number()])

function sealConfirmation(vault: Vault, { accountId, personId }: Confirmation, now: number): string {
  return vault.seal(JSON.stringify(['confirm-mail', accountId, personId, now]))
}

/** undefined: not a token of this installation, or too old. */
export function openConfirmation({ vault, clock }: Pick<App, 'vault' | 'clock'>, token: string) {
  let text: unknown
  try {
    text = JSON.parse(vault.open(token))
  } catch {
    // Sealed under another key, or changed: the link is not ours.
    return undefined
  }
  const parsed = content.safeParse(text)
  if (!parsed.success) return undefined
  const [, accountId, personId, sentAt] = parsed.data
  return clock.now() - sentAt > limits.mailConfirmationMs ? undefined : { accountId, personId }
}

/** Sends the confirmation message to the caller's own address. Returns the address. */
export async function sendConfirmation(app: App, actor: Actor): Promise<Result<string>> {
  const { mailer } = app
  if (mailer === undefined) return fail('mail_not_configured')
  const address = await transact(app.database, (tx) => noteConfirmation(tx, actor))
  if (!address.ok) return address
  const outcome = await mailer.sendConfirmation(address.value, sealConfirmation(app.vault, actor, app.clock.now()))
  return outcome.kind === 'sent' ? address : fail('mail_refused', { message: outcome.error })
}

async function noteConfirmation(tx: Tx, { accountId, personId }: Actor): Promise<Result<string>> {
  await lockAccount(tx, accountId)
  await lockPerson(tx, personId)
  const member = await findMember(tx.db, accountId, personId)
  if (member === undefined) return notAMember()
  if (member.mail_confirmed_at !== null) return fail('mail_already_confirmed')
  const { ofAccount, ofPerson } = await countConfirmations(
    tx.db,
    { accountId, personId },
    addMs(tx.clock.now(), -DAY_MS),
  )
  if (ofAccount >= limits.confirmationsPerAccount || ofPerson >= limits.confirmationsPerAddress)
    return fail('too_many_confirmations')
  await insertConfirmation(tx, { accountId, personId })
  return ok(member.email)
}

/** Confirms email by the link in a message. False: the person is no longer a member. */
export async function confirmMembership(tx: Tx, { accountId, personId }: Confirmation): Promise<boolean> {
  return confirmMail(tx, accountId, personId)
}
