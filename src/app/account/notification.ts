/** Notifications of a member, and which of them come by e-mail. */
import type { Mailer } from '../../domain/mail.ts'
import { notificationKinds, type NotificationKind } from '../../contract/notification-kind.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { isForOperators } from '../../domain/notification.ts'
import { findMember } from '../../store/account/account.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import * as store from '../../store/notice/notification.ts'
import type { Actor } from '../app.ts'

export function readerOf(actor: Actor): store.Reader {
  return { accountId: actor.accountId, personId: actor.personId, isOperator: actor.scopes.includes('operator') }
}

/** Returns how many are still unread. */
export async function readNotifications(
  tx: Tx,
  actor: Actor,
  input: { ids?: readonly string[] | undefined; upTo?: string | undefined },
): Promise<Result<number>> {
  if (input.ids === undefined && input.upTo === undefined) return fail('nothing_to_change')
  const reader = readerOf(actor)
  if (input.upTo !== undefined) await store.markReadUpTo(tx, reader, BigInt(input.upTo))
  if (input.ids !== undefined) await store.markRead(tx, reader, input.ids.map(BigInt))
  return ok(await store.countUnread(tx.db, reader))
}

export interface Choices {
  readonly emailAddress: string
  readonly emailConfirmed: boolean
  readonly choices: ReadonlyArray<store.Choice & { readonly label: string }>
}

/** Kinds for operators are left out for others. */
export async function readChoices(db: Db, actor: Actor): Promise<Result<Choices>> {
  const member = await findMember(db, actor.accountId, actor.personId)
  if (member === undefined) return fail('not_a_member')
  const chosen = new Map((await store.listChoices(db, actor.accountId, actor.personId)).map((one) => [one.kind, one]))
  const isOperator = actor.scopes.includes('operator')
  const kinds = Object.keys(notificationKinds) as NotificationKind[]
  const choices = kinds
    .filter((kind) => isOperator || !isForOperators(kind))
    .map((kind) => ({ ...(chosen.get(kind) ?? defaultChoice(kind)), label: notificationKinds[kind].label }))
  return ok({ emailAddress: member.email, emailConfirmed: member.mail_confirmed_at !== null, choices })
}

export async function changeChoices(
  tx: Tx,
  actor: Actor,
  changes: ReadonlyArray<{ kind: NotificationKind; console?: boolean | undefined; email?: boolean | undefined }>,
): Promise<Result<Choices>> {
  const before = await readChoices(tx.db, actor)
  if (!before.ok) return before
  for (const { kind, console, email } of changes) {
    const old = before.value.choices.find((choice) => choice.kind === kind) ?? defaultChoice(kind)
    const choice = { kind, console: console ?? old.console, email: email ?? old.email }
    await store.saveChoice(tx, actor.accountId, actor.personId, choice)
  }
  return readChoices(tx.db, actor)
}

/** Turns off email by the link in a message. False: the person is no longer a member. */
export async function stopMail(
  tx: Tx,
  who: { accountId: string; personId: string; kind: NotificationKind },
): Promise<boolean> {
  if ((await findMember(tx.db, who.accountId, who.personId)) === undefined) return false
  const chosen = await store.listChoices(tx.db, who.accountId, who.personId)
  const old = chosen.find(({ kind }) => kind === who.kind) ?? defaultChoice(who.kind)
  await store.saveChoice(tx, who.accountId, who.personId, { ...old, email: false })
  return true
}

function defaultChoice(kind: NotificationKind): store.Choice {
  return { kind, console: true, email: notificationKinds[kind].email }
}

export async function sendTestMail(mailer: Mailer | undefined, address: string): Promise<Result<{ reply: string }>> {
  if (mailer === undefined) return fail('mail_not_configured')
  const outcome = await mailer.sendTest(address)
  return outcome.kind === 'sent' ? ok({ reply: outcome.reply }) : fail('mail_refused', { message: outcome.error })
}
