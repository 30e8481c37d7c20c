/** Accounts: roles of members, quotas. */
import type { Quota } from '../base/limits.ts'
import { quotaTexts } from '../contract/quota-text.ts'
import type { Reply } from '../client/client.ts'

export const roleLabels = {
  owner: 'Owner',
  member: 'Member',
  viewer: 'Viewer',
} as const satisfies Record<Reply<'listMembers'>['members'][number]['role'], string>

export function quotaLabel(name: keyof Quota): string {
  return quotaTexts[name].replace(/^[a-z]/, (letter) => letter.toUpperCase())
}
