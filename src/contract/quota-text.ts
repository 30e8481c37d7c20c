/** Describes each quota of an account in the words that follow its number: `100 volumes`. */
import type { Quota } from '../base/limits.ts'

export const quotaTexts: Readonly<Record<keyof Quota, string>> = {
  gpus: 'GPUs in use',
  volumes: 'volumes',
  volumeGb: 'GB of volume storage',
  keys: 'API keys',
  sshKeys: 'SSH keys',
  webhooks: 'webhooks',
  fileGb: 'GB of files',
  requestsPerMinute: 'inference requests per minute',
  tokensPerMinute: 'inference tokens per minute',
  streams: 'concurrent inference requests',
}

export const quotaNames = Object.keys(quotaTexts) as ReadonlyArray<keyof Quota>
