/**
 * Dialogs are the browser's own: it keeps the focus inside, closes on Escape and gives the focus back. What is inside
 * is made when it opens and forgotten when it closes.
 */
import { useEffect, useId, useRef, useState, type FormEvent, type ReactNode } from 'react'
import type { ClientError } from '../../src/client/error.ts'
import { Button } from './button.tsx'
import { cx } from './class.ts'
import { ErrorNotice } from './error-notice.tsx'
import { TextField } from './field.tsx'

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly wide?: boolean
  readonly children: ReactNode
}

/** On the screen for as long as it is rendered: `{isOpen && <Dialog …>}`. */
export function Dialog({ title, onClose, wide = false, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const dialog = ref.current
    if (dialog !== null && !dialog.open) dialog.showModal()
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={ref}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
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
        <Button look="quiet" onClick={onClose} aria-label="Close" className="-mt-1 -mr-2">
          <span aria-hidden="true">✕</span>
        </Button>
      </div>
      {children}
    </dialog>
  )
}

/** The row of buttons at the end of a dialog. */
export function DialogButtons({ children }: { children: ReactNode }) {
  return <div className="mt-5 flex flex-wrap justify-end gap-2">{children}</div>
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
          <TextField label={`Type ${word} to go on`} value={typed} onChange={(event) => setTyped(event.target.value)} />
        )}
        {error !== null && <ErrorNotice error={error} />}
        <DialogButtons>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="danger" busy={busy} disabled={word !== undefined && typed !== word}>
            {action}
          </Button>
        </DialogButtons>
      </form>
    </Dialog>
  )
}
