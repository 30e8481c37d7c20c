/** A code by email: the address, then a field for the code in the same place. Also the step-up, where the address is fixed. */
import { useEffect, useRef, useState, type FormEvent, type RefObject } from 'react'
import type { ClientError } from '../../src/client/error.ts'
import { Button } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { TextField } from '../ui/field.tsx'
import { useAttempt } from './attempt.ts'

interface CodeFormProps {
  /** The address of who is signed in. Absent: it is asked for. */
  readonly address?: string
  /** Both reject with what the server refuses. */
  readonly onSend: (address: string) => Promise<void>
  readonly onRedeem: (code: string) => Promise<void>
  /** The verb on the button. */
  readonly action: string
  /** A code was sent before this form was opened, to an address that it does not know. */
  readonly isSent?: boolean
}

export function CodeForm({ address: initialAddress, onSend, onRedeem, action, isSent = false }: CodeFormProps) {
  const [address, setAddress] = useState(initialAddress ?? '')
  const [sent, setSent] = useState(isSent ? 1 : 0)
  const { attempt, busy, error } = useAttempt<Step>()
  const form = useFieldFocus()
  const send = (): Promise<void> =>
    attempt('send', async () => {
      await onSend(address.trim())
      setSent((times) => times + 1)
    })
  if (sent > 0) {
    return (
      <CodeField
        key={sent}
        address={address.trim()}
        isAgain={sent > 1}
        busy={busy}
        error={error}
        action={action}
        onRedeem={(code) => void attempt('redeem', () => onRedeem(code))}
        onAgain={address === '' ? undefined : () => void send()}
        onOther={initialAddress === undefined ? () => setSent(0) : undefined}
      />
    )
  }
  return (
    <form
      ref={form}
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
      className="flex flex-col gap-4"
    >
      {initialAddress === undefined ? (
        <TextField
          label="Email address"
          type="email"
          required
          autoComplete="email"
          maxLength={255}
          value={address}
          onChange={(event) => setAddress(event.target.value)}
          hint="We send you a code to type here. There is no password."
        />
      ) : (
        <p className="text-sm">
          We send a code to <span className="font-medium break-words">{initialAddress}</span>.
        </p>
      )}
      {error !== null && <ErrorNotice error={error} />}
      <Button look="primary" type="submit" busy={busy === 'send'} disabled={address.trim() === ''}>
        Send code
      </Button>
    </form>
  )
}

/** The field is what the person came for, or what replaced the field that had the focus. */
export function useFieldFocus(isWanted = true): RefObject<HTMLFormElement | null> {
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    if (isWanted) form.current?.querySelector('input')?.focus()
  }, [isWanted])
  return form
}

type Step = 'send' | 'redeem'

interface CodeFieldProps {
  readonly address: string
  readonly isAgain: boolean
  readonly busy: Step | undefined
  readonly error: ClientError | null
  readonly action: string
  readonly onRedeem: (code: string) => void
  readonly onAgain: (() => void) | undefined
  readonly onOther: (() => void) | undefined
}

function CodeField(props: CodeFieldProps) {
  const { address, isAgain, busy, error, action, onRedeem, onAgain, onOther } = props
  const [code, setCode] = useState('')
  const form = useFieldFocus()
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    onRedeem(code)
  }
  return (
    <form ref={form} onSubmit={submit} className="flex flex-col gap-4">
      <p className="text-sm" role="status">
        {address === '' ? (
          'A code is on its way to your address at the provider, which has not verified it. '
        ) : (
          <>
            {isAgain ? 'Another code' : 'A code'} is on its way to{' '}
            <span className="font-medium break-words">{address}</span>, if this address can sign in here.{' '}
          </>
        )}
        It works for ten minutes, in this browser only.
      </p>
      <TextField
        label="Code"
        required
        autoComplete="one-time-code"
        inputMode="numeric"
        maxLength={20}
        placeholder="1234 5678"
        value={code}
        onChange={(event) => setCode(event.target.value)}
      />
      {error !== null && <ErrorNotice error={error} />}
      <Button look="primary" type="submit" busy={busy === 'redeem'} disabled={code.trim() === ''}>
        {action}
      </Button>
      <div className="flex flex-wrap justify-between gap-2">
        {onAgain !== undefined && (
          <Button look="quiet" busy={busy === 'send'} onClick={onAgain} className="-ml-3">
            Send another code
          </Button>
        )}
        {onOther !== undefined && (
          <Button look="quiet" onClick={onOther} className="-mr-3">
            Use another address
          </Button>
        )}
      </div>
    </form>
  )
}
