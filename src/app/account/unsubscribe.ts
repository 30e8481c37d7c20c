/** The token in the unsubscribe link of an e-mail: who stops which kind. Sealed, so that nobody can make one. */
import { z } from 'zod'
import type { Vault } from '../../base/vault.ts'
import { notificationKinds, type NotificationKind } from '../../contract/notification-kind.ts'

export interface Unsubscribe {
  readonly accountId: string
  readonly personId: string
  readonly kind: NotificationKind
}

const kinds = Object.keys(notificationKinds) as [NotificationKind, ...NotificationKind[]]
const content = z.tuple([z.literal('unsubscribe'), z.string(), z.string(), z.enum(kinds)])

export function sealUnsubscribe(vault: Vault, { accountId, personId, kind }: Unsubscribe): string {
  return vault.seal(JSON.stringify(['unsubscribe', accountId, personId, kind]))
}

/** undefined: not a token of this installation. */
export function openUnsubscribe(vault: Vault, token: string): Unsubscribe | undefined {
  let text: unknown
  try {
    text = JSON.parse(vault.open(token))
  } catch {
    // Sealed under another key, or changed: the link is not ours.
    return undefined
  }
  const parsed = content.safeParse(text)
  if (!parsed.success) return undefined
  const [, accountId, personId, kind] = parsed.data
  return { accountId, personId, kind }
}
