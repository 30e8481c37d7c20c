/** Adds an account: credentials, their check, and a markup with the prices that it makes. */
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { useAction } from '../../api/query.ts'
import { FormFrame } from '../../form/dialog.tsx'
import { useFieldForm } from '../../form/field-form.ts'
import { Fields } from '../../form/fields.tsx'
import { optionalNumber, optionalText } from '../../form/read.ts'
import { Code } from '../../ui/card.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { TextField } from '../../ui/field.tsx'
import { Notice } from '../../ui/notice.tsx'
import { toast } from '../../ui/toast.tsx'
import { Checks } from '../provider/checks.tsx'
import {
  CredentialFields,
  isElsewhere,
  missingCredential,
  typedCredentials,
  type ProviderKind,
} from '../provider/credentials.tsx'
import { credentialsFile } from '../provider/parts.tsx'
import { PricePreview } from './preview.tsx'

/** A cloud may ask for pauses between requests. */
const TRY_MS = 70_000
const USUAL_MARKUP = '20'

type Tried = Reply<'tryProvider'>

interface Account {
  readonly provider: ProviderKind['provider']
  readonly credentials: Record<string, string>
  readonly baseUrl?: string
}

export function AddProviderDialog({ kind, onClose }: { kind: ProviderKind; onClose: () => void }) {
  const [tried, setTried] = useState<{ readonly account: Account; readonly reply: Tried }>()
  return (
    <Dialog title={`Add an account at ${kind.title}`} onClose={onClose} wide>
      {tried === undefined || !tried.reply.ok ? (
        <CheckForm kind={kind} failed={tried?.reply} onClose={onClose} onTried={setTried} />
      ) : (
        <AddForm {...tried} onBack={() => setTried(undefined)} onClose={onClose} />
      )}
    </Dialog>
  )
}

interface CheckFormProps {
  readonly kind: ProviderKind
  /** The last check, if it failed. */
  readonly failed: Tried | undefined
  readonly onClose: () => void
  readonly onTried: (tried: { account: Account; reply: Tried }) => void
}

function CheckForm({ kind, failed, onClose, onTried }: CheckFormProps) {
  const [values, setValues] = useState<Record<string, string>>({})
  const [address, setAddress] = useState('')
  const check = useAction('tryProvider')
  const baseUrl = optionalText(address)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    const account = {
      provider: kind.provider,
      credentials: typedCredentials(values),
      ...(baseUrl === undefined ? {} : { baseUrl }),
    }
    check.mutate({ body: account, timeoutMs: TRY_MS }, { onSuccess: (reply) => onTried({ account, reply }) })
  }
  return (
    <form onSubmit={submit} noValidate autoComplete="off" className="flex flex-col gap-4">
      <p className="text-sm text-muted">
        Stored encrypted and never shown again. The check changes nothing at {kind.title}.
      </p>
      <CredentialFields kind={kind} values={values} error={check.error} onChange={setValues} />
      <details className="text-sm">
        <summary className="cursor-pointer font-medium">Another address</summary>
        <div className="mt-3">
          <TextField
            label="Address of the API"
            type="url"
            placeholder={kind.baseUrl}
            value={address}
            onChange={(event) => setAddress(event.target.value)}
          />
        </div>
      </details>
      <CommandLine kind={kind} />
      {isElsewhere(kind, check.error) && check.error !== null && <ErrorNotice error={check.error} />}
      {failed !== undefined && !check.isPending && (
        <>
          <Notice tone="warn">The account cannot be used with these credentials.</Notice>
          <Checks checks={failed.checks} />
        </>
      )}
      <DialogButtons>
        <CancelButton onClick={onClose} />
        <SubmitButton
          look="primary"
          busy={check.isPending}
          disabledReason={missingCredential(kind, values) === undefined ? undefined : 'Fill in the credentials first'}
        >
          Check
        </SubmitButton>
      </DialogButtons>
    </form>
  )
}

interface AddFormProps {
  readonly account: Account
  readonly reply: Tried
  readonly onBack: () => void
  readonly onClose: () => void
}

function AddForm({ account, reply, onBack, onClose }: AddFormProps) {
  const form = useFieldForm('addProvider', {
    refreshes: ['listProviders'],
    initial: { name: account.provider, markupPercentage: USUAL_MARKUP },
    fields: [
      ['name', { hint: 'Of your choice; it is part of the names of its machines.' }],
      [
        'markupPercentage',
        { label: 'Markup (%)', hint: 'Added to what the cloud charges. Empty: only the price book sets prices.' },
      ],
      ['monthlyCapUsd', { placeholder: 'None' }],
    ],
    body: (body) => ({ ...body, ...account }),
    onDone: ({ name }) => {
      toast(`Added ${name}. Its offers appear within a minute.`)
      onClose()
    },
  })
  const markup = optionalNumber(form.values.markupPercentage)
  return (
    <FormFrame form={form} action="Add account" cancel="Back" onClose={onBack}>
      <Notice>The credentials work. Nothing is stored until you add the account.</Notice>
      <Fields form={form} wide />
      <PricePreview offers={reply.offers} markup={markup} />
    </FormFrame>
  )
}

function CommandLine({ kind: { provider, credentials } }: { kind: ProviderKind }) {
  const file = credentialsFile(credentials)
  return (
    <details className="text-sm">
      <summary className="cursor-pointer font-medium">Use the command line</summary>
      <div className="mt-3 flex flex-col gap-3">
        <p>
          Put the credentials into <Code text={file.name} />, readable only by you, then add and check the account:
        </p>
        <CodeBlock label={`Contents of ${file.name}`} code={file.text} />
        <CodeBlock
          label="Commands to add an account"
          code={`berth operator providers create ${provider} main \\\n  --credentials ${file.name} --markup 20\nberth operator providers check main`}
        />
      </div>
    </details>
  )
}
