/** The quota of an account. Only changed values are sent, so that the others follow a raised default. */
import { number } from '../../../src/view/number.ts'
import { defaultQuota, type Quota } from '../../../src/base/limits.ts'
import { quotaLabels, quotaNames } from '../../../src/view/account.ts'
import { optionalNumber } from '../../form/read.ts'
import { TextField } from '../../ui/field.tsx'
import type { Account } from './record.tsx'
import { AccountDialog } from './standing.tsx'

type Field = `quota.${keyof Quota}`
const fieldOf = (name: keyof Quota): Field => `quota.${name}`

export function QuotaDialog({ account, onClose }: { account: Account; onClose: () => void }) {
  const before = (name: keyof Quota): number => account.quota[name] ?? defaultQuota[name]
  const texts = Object.fromEntries(quotaNames.map((name) => [fieldOf(name), String(before(name))]))
  return (
    <AccountDialog
      account={account}
      title={`Quota of ${account.name}`}
      action="Save quota"
      wide
      disabledReason="unchanged"
      initial={{ ...(texts as Record<Field, string>), reason: '' }}
      body={({ reason, ...quota }) => ({
        quota: Object.fromEntries(
          quotaNames
            .map((name) => [name, optionalNumber(quota[fieldOf(name)]) ?? Number.NaN] as const)
            .filter(([name, value]) => value !== before(name)),
        ),
        reason,
      })}
      done={() => `Changed the quota of ${account.name}.`}
      onClose={onClose}
    >
      {(form) => (
        <div className="grid items-start gap-4 sm:grid-cols-3">
          {quotaNames.map((name) => (
            <TextField
              key={name}
              label={quotaLabels[name]}
              inputMode="numeric"
              hint={`Default: ${number(defaultQuota[name])}`}
              {...form.text(fieldOf(name))}
            />
          ))}
        </div>
      )}
    </AccountDialog>
  )
}
