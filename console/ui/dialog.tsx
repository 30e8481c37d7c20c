/**
 * Native dialogs: the browser traps the focus, closes on Escape and restores the focus.
 *
 * A dialog stays open while its request is pending. Otherwise a machine could be rented without feedback, or a key
 * created whose secret nobody has seen. The `SubmitButton` inside keeps it open.
 */
import {
  createContext,
  useContext,
  useEffect,
  useEffectEvent,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type ComponentProps,
  type FormEvent,
  type ReactNode,
} from 'react'
import type { ClientError } from '../../src/client/error.ts'
import { Button } from './button.tsx'
import { cx } from './class.ts'
import { ErrorNotice } from './error-notice.tsx'
import { TextField } from './field.tsx'

interface DialogBusy {
  readonly isBusy: boolean
  /** Keeps the dialog open until the returned function is called. */
  readonly hold: () => () => void
}

const DialogBusyContext = createContext<DialogBusy>({ isBusy: false, hold: () => () => undefined })

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly wide?: boolean
  /** Only an explicit button closes the dialog, as for secrets that are shown once. */
  readonly needsButton?: boolean
  readonly children: ReactNode
}

/** A dialog is open while it is rendered: `{isOpen && <Dialog …>}`. */
export function Dialog({ title, onClose, wide = false, needsButton = false, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  const [holds, setHolds] = useState(0)
  const isBusy = holds > 0
  const dialogBusy = useMemo(
    () => ({
      isBusy,
      hold: () => {
        setHolds((now) => now + 1)
        return () => setHolds((now) => now - 1)
      },
    }),
    [isBusy],
  )
  const mayClose = !isBusy && !needsButton
  useEffect(() => {
    const dialog = ref.current
    if (dialog !== null && !dialog.open) dialog.showModal()
    return () => dialog?.close()
  }, [])
  useNoEscape(!mayClose)
  return (
    <dialog
      ref={ref}
      aria-labelledby={titleId}
      onCancel={(event) => {
        // A file input inside emits an event of the same name.
        if (event.target !== event.currentTarget) return
        event.preventDefault()
        if (mayClose) onClose()
      }}
      onClose={(event) => {
        // On a second Escape, the browser closes the dialog without a cancel event.
        if (event.currentTarget.open) return
        if (mayClose) onClose()
        else event.currentTarget.showModal()
      }}
      className={cx(
        'm-auto max-h-[92dvh] w-[calc(100vw-2rem)] overflow-y-auto rounded-lg border border-line bg-surface p-5 text-ink shadow-raised',
        wide ? 'max-w-3xl' : 'max-w-lg',
      )}
    >
      <div className="mb-3 flex items-start justify-between gap-4">
        <h2 id={titleId} className="text-lg font-semibold">
          {title}
        </h2>
        {!needsButton && (
          <Button look="quiet" onClick={onClose} disabled={isBusy} aria-label="Close" className="-mt-1 -mr-2">
            <span aria-hidden="true">✕</span>
          </Button>
        )}
      </div>
      <DialogBusyContext value={dialogBusy}>{children}</DialogBusyContext>
    </dialog>
  )
}

export interface OpenDialog {
  /** `open((close) => <RevokeDialog apiKey={key} onClose={close} />)` */
  readonly open: (dialog: (close: () => void) => ReactNode) => void
  /** The open dialog, if any. The page must render it in one place. */
  readonly shown: ReactNode
}

/** The dialog of a page, which has one open at a time. An open dialog keeps the row that it was opened for. */
export function useDialog(): OpenDialog {
  const [dialog, setDialog] = useState<(close: () => void) => ReactNode>()
  return {
    open: (next) => setDialog(() => next),
    shown: dialog?.(() => setDialog(undefined)),
  }
}

/** Ignores Escape. The listener is on the document, which has the focus after the focused button was disabled. */
function useNoEscape(isActive: boolean): void {
  const ignore = useEffectEvent((event: KeyboardEvent) => {
    if (isActive && event.key === 'Escape') event.preventDefault()
  })
  useEffect(() => {
    const listener = (event: KeyboardEvent): void => ignore(event)
    document.addEventListener('keydown', listener)
    return () => document.removeEventListener('keydown', listener)
  }, [])
}

/** Keeps the dialog open for requests not started by a `SubmitButton`. */
export function useDialogBusy(isBusy: boolean): void {
  const { hold } = useContext(DialogBusyContext)
  const begin = useEffectEvent(() => hold())
  useLayoutEffect(() => (isBusy ? begin() : undefined), [isBusy])
}

export function DialogButtons({ children }: { children: ReactNode }) {
  return (
    <div className="sticky -bottom-5 -mx-5 mt-4 -mb-5 flex flex-wrap justify-end gap-2 rounded-b-lg border-t border-line bg-surface px-5 py-3">
      {children}
    </div>
  )
}

export function CancelButton({ onClick, children = 'Cancel' }: { onClick: () => void; children?: ReactNode }) {
  const { isBusy } = useContext(DialogBusyContext)
  return (
    <Button onClick={onClick} disabledReason={isBusy ? 'Wait until the request is complete' : undefined}>
      {children}
    </Button>
  )
}

/** Keeps the dialog open while busy. */
export function SubmitButton({ busy, ...rest }: Omit<ComponentProps<typeof Button>, 'type'> & { busy: boolean }) {
  useDialogBusy(busy)
  return <Button look="primary" {...rest} type="submit" busy={busy} />
}

interface ConfirmProps {
  readonly title: string
  readonly children: ReactNode
  /** The verb on the button: "Terminate". */
  readonly action: string
  /** The word that must be typed first, for actions that cannot be undone. */
  readonly word?: string
  readonly busy: boolean
  readonly error: ClientError | null
  readonly onConfirm: () => void
  readonly onClose: () => void
}

export function ConfirmDialog({ title, children, action, word, busy, error, onConfirm, onClose }: ConfirmProps) {
  const [typed, setTyped] = useState('')
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    onConfirm()
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-3">
        <div className="text-sm text-muted">{children}</div>
        {word !== undefined && (
          <TextField
            label={`Type ${word} to confirm`}
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
        )}
        {error !== null && <ErrorNotice error={error} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton look="danger" busy={busy} disabled={word !== undefined && typed !== word}>
            {action}
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}
