/** How much an account may hold. Only what was changed is sent, so that a raised default reaches the rest. */
import { useState, type FormEvent } from 'react'
import { defaultQuota, type Quota } from '../../../src/base/limits.ts'
import { reasonText } from '../../../src/contract/shared.ts'
import { number } from '../../../src/view/number.ts'
import { useAction } from '../../api/query.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import type { Account } from './record.tsx'

const MAX_DIGITS = 10

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

export function QuotaDialog({ account, onClose }: { account: Account; onClose: () => void }) {
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>(() =>
    Object.fromEntries(quotaWords.map(({ name }) => [name, String(account.quota[name] ?? defaultQuota[name])])),
  )
  const [reason, setReason] = useState('')
  const [isChecked, setChecked] = useState(false)
  const change = useAction('changeAccount', ['getAccount', 'listAccounts', 'listAudit'])
  const changed = quotaWords.filter(({ name }) => texts[name] !== String(account.quota[name] ?? defaultQuota[name]))
  const faultOf = (name: keyof Quota): string | undefined =>
    isWhole(texts[name] ?? '') ? undefined : 'Write a whole number.'
  const reasonFault = faultOfReason(reason)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (quotaWords.some(({ name }) => faultOf(name) !== undefined) || reasonFault !== undefined) return
    const quota = Object.fromEntries(changed.map(({ name }) => [name, Number.parseInt(texts[name] ?? '', 10)]))
    change.mutate(
      { params: { id: account.id }, body: { quota, reason } },
      {
        onSuccess: () => {
          toast(`The quota of ${account.name} is changed.`)
          onClose()
        },
      },
    )
  }
  return (
    <Dialog title={`Quota of ${account.name}`} wide onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <div className="grid items-start gap-4 sm:grid-cols-3">
          {quotaWords.map(({ name, label }) => (
            <TextField
              key={name}
              label={label}
              inputMode="numeric"
              value={texts[name] ?? ''}
              onChange={(event) => setTexts({ ...texts, [name]: event.target.value.trim() })}
              error={isChecked ? faultOf(name) : undefined}
              hint={`Default ${number(defaultQuota[name])}`}
            />
          ))}
        </div>
        <TextField
          label="Reason"
          value={reason}
          onChange={(event) => setReason(event.target.value)}
          error={isChecked ? reasonFault : undefined}
          hint="Stands in the audit log."
        />
        {change.error !== null && <ErrorNotice error={change.error} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton
            busy={change.isPending}
            disabledReason={changed.length === 0 ? 'Nothing is changed' : undefined}
          >
            Save the quota
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

/** undefined: it will do. */
export function faultOfReason(reason: string): string | undefined {
  return reasonText.safeParse(reason).success ? undefined : 'Say why, in three letters to 500.'
}

function isWhole(text: string): boolean {
  return /^\d+$/.test(text) && text.length <= MAX_DIGITS
}
