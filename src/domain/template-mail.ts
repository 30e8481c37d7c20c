/** Messages that are not about notifications, by template. Their texts are in server/mail/template-text.ts. */
import type { Instant } from '../base/instant.ts'

export type TemplateMail =
  /** The code is typed in the browser that asked for it; there is no link, since mail scanners open links. */
  | {
      readonly template: 'sign-in-code'
      readonly code: string
      readonly browser: string
      readonly address: string
      /** The provider that the person can sign in with afterwards. */
      readonly connects?: string | undefined
    }
  | {
      readonly template: 'new-sign-in'
      readonly method: string
      readonly browser: string
      readonly address: string
      readonly at: Instant
    }
  | {
      readonly template: 'payout-details'
      readonly accountName: string
      /** The last characters of the new account. */
      readonly hint: string
      readonly at: Instant
      readonly usableAt: Instant
    }
  | {
      readonly template: 'invitation'
      /** null: an invitation to open an account. */
      readonly accountName: string | null
      readonly senderName: string
      readonly role: string
      readonly invitationId: string
      readonly days: number
    }
