/**
 * Dialogs are the browser's own: it keeps the focus inside, closes on Escape and gives the focus back. What is inside
 * is made when it opens and forgotten when it closes.
 *
 * That is why a dialog stays while its work is under way: the answer would find nobody, and a machine would be rented
 * without a word, or a key made whose secret nobody has seen. The form inside says so by its `SubmitButton`.
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

interface Holding {
  readonly isBusy: boolean
  /** Keeps the dialog open until what it returns is called. */
  readonly hold: () => () => void
}

const Held = createContext<Holding>({ isBusy: false, hold: () => () => undefined })

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly wide?: boolean
  /** It shows what is shown once: neither Escape nor a ✕ takes it away, only a button that says what it means. */
  readonly kept?: boolean
  readonly children: ReactNode
}

/** On the screen for as long as it is rendered: `{isOpen && <Dialog …>}`. */
export function Dialog({ title, onClose, wide = false, kept = false, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  const [holds, setHolds] = useState(0)
  const isBusy = holds > 0
  const holding = useMemo(
    () => ({
      isBusy,
      hold: () => {
        setHolds((now) => now + 1)
        return () => setHolds((now) => now - 1)
      },
    }),
    [isBusy],
  )
  const mayClose = !isBusy && !kept
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
        // A field for files inside tells that nothing was chosen by an event of the same name.
        if (event.target !== event.currentTarget) return
        event.preventDefault()
        if (mayClose) onClose()
      }}
      onClose={(event) => {
        // The browser closes it without asking when it was refused once before.
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
        {!kept && (
          <Button look="quiet" onClick={onClose} disabled={isBusy} aria-label="Close" className="-mt-1 -mr-2">
            <span aria-hidden="true">✕</span>
          </Button>
        )}
      </div>
      <Held value={holding}>{children}</Held>
    </dialog>
  )
}

/** On the document, since a button that was just disabled has lost the focus to it. */
function useNoEscape(isOn: boolean): void {
  const ignore = useEffectEvent((event: KeyboardEvent) => {
    if (isOn && event.key === 'Escape') event.preventDefault()
  })
  useEffect(() => {
    const listener = (event: KeyboardEvent): void => ignore(event)
    document.addEventListener('keydown', listener)
    return () => document.removeEventListener('keydown', listener)
  }, [])
}

/** For what is under way inside of a dialog and is not begun by a `SubmitButton`. */
export function useDialogBusy(isBusy: boolean): void {
  const { hold } = useContext(Held)
  const begin = useEffectEvent(() => hold())
  useLayoutEffect(() => (isBusy ? begin() : undefined), [isBusy])
}

/** The row of buttons at the end of a dialog. */
export function DialogButtons({ children }: { children: ReactNode }) {
  return <div className="mt-5 flex flex-wrap justify-end gap-2">{children}</div>
}

/** The way out of a dialog, for as long as there is one. */
export function CancelButton({ onClick, children = 'Cancel' }: { onClick: () => void; children?: ReactNode }) {
  const { isBusy } = useContext(Held)
  return (
    <Button onClick={onClick} disabledReason={isBusy ? 'It is under way' : undefined}>
      {children}
    </Button>
  )
}

/** Does what the dialog is about. While it is busy the dialog stays. */
export function SubmitButton({ busy, ...rest }: Omit<ComponentProps<typeof Button>, 'type'> & { busy: boolean }) {
  useDialogBusy(busy)
  return <Button look="primary" {...rest} type="submit" busy={busy} />
}

interface ConfirmProps {
  readonly title: string
  readonly children: ReactNode
  /** What the button that does it says: "Terminate". */
  readonly action: string
  /** To be typed before the button can be pressed, for what cannot be undone. */
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
