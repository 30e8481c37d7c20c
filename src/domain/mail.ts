/** Outgoing email: when messages gather, when to retry, and what a message consists of. */
import { HOUR_MS, MINUTE_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { NoticeText } from './notification.ts'
import type { TemplateMail } from './template-mail.ts'

/** After the first failed attempt, the second and so on; the last applies to all further ones. About 20 hours in total. */
const retryStepsMs = [MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, 4 * HOUR_MS] as const

/** undefined: it was the last attempt. */
export function mailRetryMs(attempts: number): number | undefined {
  if (attempts >= limits.mailAttempts) return undefined
  return retryStepsMs[Math.min(Math.max(attempts, 1), retryStepsMs.length) - 1]
}

/** Notifications of one kind gather for this long after the last message about it, so that a burst is one message. */
export const mailGatherMs = 5 * MINUTE_MS
/** An older notification is not sent: a mail server that was configured late must not send a backlog. */
export const mailFreshMs = 24 * HOUR_MS

export interface MailMessage {
  readonly to: string
  readonly accountName: string
  readonly kindLabel: string
  readonly notices: readonly NoticeText[]
  /** Further notifications that are not shown. */
  readonly more: number
  /** Opens the page that stops e-mail about this kind. */
  readonly unsubscribeToken: string
  /** Stable over all attempts, so that a message that was sent twice shows as one. */
  readonly messageId: string
}

/** `refused`: the server will never take this message. `later`: try again. `down`: the server takes nothing at the moment. */
export type MailOutcome =
  | { readonly kind: 'sent'; readonly reply: string }
  | { readonly kind: 'refused' | 'later' | 'down'; readonly error: string }

/** Sends one message; never rejects. */
export interface Mailer {
  readonly from: string
  /** Host and port. */
  readonly server: string
  send(message: MailMessage): Promise<MailOutcome>
  sendTemplate(to: string, mail: TemplateMail, messageId: string): Promise<MailOutcome>
  /** Sent to an address that is not confirmed, so the text is fixed. */
  sendConfirmation(to: string, token: string): Promise<MailOutcome>
  sendTest(to: string): Promise<MailOutcome>
}
