/** Accounts: scopes of keys, roles of members, quotas. */
import type { Quota } from '../base/limits.ts'
import type { Scope } from '../contract/endpoint.ts'
import type { Reply } from '../client/client.ts'

export const scopeLabels = {
  inference: 'Use models',
  'compute:read': 'View machines and volumes',
  'compute:write': 'Rent and terminate machines',
  'billing:read': 'View billing',
  'billing:write': 'Manage budgets',
  keys: 'Manage keys, members and webhooks',
  supply: 'Supply machines',
  operator: 'Operate this server',
} as const satisfies Record<Scope, string>

export const roleLabels = {
  owner: 'Owner',
  member: 'Member',
  viewer: 'Viewer',
} as const satisfies Record<Reply<'listMembers'>['members'][number]['role'], string>

export const quotaLabels = {
  gpus: 'GPUs in use',
  volumes: 'Volumes',
  volumeGb: 'GB of volume storage',
  keys: 'API keys',
  sshKeys: 'SSH keys',
  webhooks: 'Webhooks',
  requestsPerMinute: 'Inference requests per minute',
  tokensPerMinute: 'Tokens per minute',
  streams: 'Concurrent inference requests',
} as const satisfies Record<keyof Quota, string>

export const quotaNames = Object.keys(quotaLabels) as ReadonlyArray<keyof Quota>
