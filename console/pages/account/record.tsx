/** An account and its status. */
import type { Reply } from '../../../src/client/client.ts'
import { Badge } from '../../ui/badge.tsx'

export type Account = Reply<'getAccount'>

export function StandingBadge({ account }: { account: Pick<Account, 'suspended' | 'supplier'> }) {
  if (account.suspended) return <Badge tone="bad">Suspended</Badge>
  return account.supplier ? <Badge tone="info">Supplier</Badge> : <Badge tone="good">Active</Badge>
}
