/** Dialogs and buttons for one operation: a form with its buttons, a confirmation, a direct call. */
import type { ComponentProps, ReactNode } from 'react'
import type { CallableId, CallInput, Reply } from '../../src/client/client.ts'
import type { ClientError } from '../../src/client/error.ts'
import { useAction } from '../api/query.ts'
import { Button } from '../ui/button.tsx'
import { CancelButton, ConfirmDialog, Dialog, DialogButtons, SubmitButton } from '../ui/dialog.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { toast } from '../ui/toast.tsx'
import type { Form } from './use-form.ts'

interface FormFrameProps {
  readonly form: Pick<Form<object>, 'submit' | 'elsewhere' | 'isPending'>
  /** The verb on the button: "Create key". */
  readonly action: string
  readonly look?: 'primary' | 'danger'
  readonly disabledReason?: string | undefined
  readonly cancel?: string
  readonly onClose: () => void
  readonly children: ReactNode
}

/** Inside a dialog. */
export function FormFrame({ form, action, look, disabledReason, cancel, onClose, children }: FormFrameProps) {
  return (
    <form onSubmit={form.submit} noValidate className="flex flex-col gap-4">
      {children}
      <FormProblems form={form} />
      <DialogButtons>
        <CancelButton onClick={onClose}>{cancel}</CancelButton>
        <SubmitButton look={look ?? 'primary'} busy={form.isPending} disabledReason={disabledReason}>
          {action}
        </SubmitButton>
      </DialogButtons>
    </form>
  )
}

export function FormDialog({
  title,
  wide = false,
  ...frame
}: FormFrameProps & { readonly title: string; readonly wide?: boolean }) {
  return (
    <Dialog title={title} onClose={frame.onClose} wide={wide}>
      <FormFrame {...frame} />
    </Dialog>
  )
}

/** Errors that no field of the form shows. */
export function FormProblems({ form }: { form: Pick<Form<object>, 'elsewhere'> }) {
  const { error, messages } = form.elsewhere()
  return (
    <>
      {error !== null && <ErrorNotice error={error} />}
      {messages.length > 0 && (
        <p role="alert" className="text-sm text-bad">
          {messages.join('; ')}
        </p>
      )}
    </>
  )
}

interface ConfirmCallProps<Op extends CallableId> {
  readonly title: string
  readonly action: string
  readonly operation: Op
  readonly input: CallInput<Op>
  readonly refreshes: readonly CallableId[]
  /** Shown when it is done. */
  readonly done: string
  /** The word that must be typed first, for actions that cannot be undone. */
  readonly word?: string
  readonly onDone?: (reply: Reply<Op>) => void
  readonly onClose: () => void
  readonly children: ReactNode
}

/** Asks before it calls the operation. */
export function ConfirmCall<Op extends CallableId>(props: ConfirmCallProps<Op>) {
  const { operation, input, refreshes, done, onDone, onClose, ...question } = props
  const action = useAction(operation, refreshes)
  const onSuccess = (reply: Reply<Op>): void => {
    toast(done)
    onClose()
    onDone?.(reply)
  }
  return (
    <ConfirmDialog
      {...question}
      busy={action.isPending}
      error={action.error}
      onConfirm={() => action.mutate(input, { onSuccess })}
      onClose={onClose}
    />
  )
}

interface CallButtonProps<Op extends CallableId> extends Omit<ComponentProps<typeof Button>, 'onClick' | 'busy'> {
  readonly operation: Op
  readonly input: CallInput<Op>
  readonly refreshes: readonly CallableId[]
  readonly done: string
}

/** Calls the operation at once. Toasts tell the outcome. */
export function CallButton<Op extends CallableId>(props: CallButtonProps<Op>) {
  const { operation, input, refreshes, done, ...button } = props
  const action = useAction(operation, refreshes)
  const outcome = { onSuccess: () => toast(done), onError: (error: ClientError) => toast(error.message, 'bad') }
  return <Button {...button} busy={action.isPending} onClick={() => action.mutate(input, outcome)} />
}
