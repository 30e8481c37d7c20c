/** How much an account may hold. Only what was changed is sent, so that a raised default reaches the rest. */
import { number } from '../../../src/view/number.ts'
import { defaultQuota, type Quota } from '../../../src/base/limits.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import { TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import type { Account } from './record.tsx'
import { useAccountForm } from './standing.tsx'

export const quotaWords: ReadonlyArray<{ readonly name: keyof Quota; readonly label: string }> = [
  { name: 'gpus', label: 'GPUs in use' },
  { name: 'volumes', label: 'Volumes' },
  { name: 'volumeGb', label: 'GB of volumes' },
  { name: 'keys', label: 'API keys' },
  { name: 'sshKeys', label: 'SSH keys' },
  { name: 'webhooks', label: 'Webhooks' },
  { name: 'requestsPerMinute', label: 'Model requests a minute' },
  { name: 'tokensPerMinute', label: 'Tokens a minute' },
  { name: 'streams', label: 'Model requests at a time' },
]

type Field = `quota.${keyof Quota}`
const fieldOf = (name: keyof Quota): Field => `quota.${name}`

export function QuotaDialog({ account, onClose }: { account: Account; onClose: () => void }) {
  const before = (name: keyof Quota): number => account.quota[name] ?? defaultQuota[name]
  const texts = Object.fromEntries(quotaWords.map(({ name }) => [fieldOf(name), String(before(name))]))
  const form = useAccountForm(
    account,
    { ...(texts as Record<Field, string>), reason: '' },
    ({ reason, ...quota }) => ({
      quota: Object.fromEntries(
        quotaWords
          .map(({ name }) => [name, optionalNumber(quota[fieldOf(name)]) ?? Number.NaN] as const)
          .filter(([name, value]) => value !== before(name)),
      ),
      reason,
    }),
    () => `The quota of ${account.name} is changed.`,
    onClose,
  )
  return (
    <FormDialog
      title={`Quota of ${account.name}`}
      wide
      form={form}
      action="Save the quota"
      disabledReason={form.isDirty ? undefined : 'Nothing is changed'}
      onClose={onClose}
    >
      <div className="grid items-start gap-4 sm:grid-cols-3">
        {quotaWords.map(({ name, label }) => (
          <TextField
            key={name}
            label={label}
            inputMode="numeric"
            hint={`Default ${number(defaultQuota[name])}`}
            {...form.text(fieldOf(name))}
          />
        ))}
      </div>
      <ReasonField {...form.text('reason')} />
    </FormDialog>
  )
}
