/** Queues a message with a template. The loop `send-mail` is woken at once, since people wait for codes. */
import type { Instant } from '../../base/instant.ts'
import type { TemplateMail } from '../../domain/template-mail.ts'
import { insertTemplateMail } from '../../store/notice/mail.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { App } from '../app.ts'

export interface OutgoingTemplate {
  readonly to: string
  readonly mail: TemplateMail
  /** Whether the message is stored and not sent. */
  readonly isWithheld?: boolean
  /** The time after which the message is useless and is not sent. */
  readonly expiresAt?: Instant
}

/** Opens the sealed data of a message. undefined: the message has expired. */
export function openTemplateMail(
  { vault, clock }: Pick<App, 'vault' | 'clock'>,
  sealed: string,
): TemplateMail | undefined {
  const { mail, expiresAt } = JSON.parse(vault.open(sealed)) as { mail: TemplateMail; expiresAt: Instant | null }
  return expiresAt !== null && expiresAt <= clock.now() ? undefined : mail
}

export async function queueTemplateMail(
  { vault }: Pick<App, 'vault'>,
  tx: Tx,
  message: OutgoingTemplate,
): Promise<void> {
  const { to, mail, isWithheld = false, expiresAt } = message
  const dataSealed = vault.seal(JSON.stringify({ mail, expiresAt: expiresAt ?? null }))
  await insertTemplateMail(tx, { to, template: mail.template, dataSealed, isWithheld })
  tx.wake.add('send-mail')
}
