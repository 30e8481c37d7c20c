/** Shows a new secret. Only a button closes it: the secret is not shown again. */
import type { ReactNode } from 'react'
import { Button } from './button.tsx'
import { CopyLine } from './copy.tsx'
import { Dialog, DialogButtons } from './dialog.tsx'
import { Notice } from './notice.tsx'

interface SecretOnceProps {
  readonly title: string
  readonly label: string
  readonly secret: string
  readonly onClose: () => void
  /** Says what to do with it, and what if it is lost. */
  readonly children: ReactNode
}

export function SecretOnce({ title, label, secret, onClose, children }: SecretOnceProps) {
  return (
    <Dialog title={title} onClose={onClose} wide needsButton>
      <div className="flex flex-col gap-4">
        <Notice tone="warn">{children}</Notice>
        <CopyLine label={label} text={secret} />
        <DialogButtons>
          <Button look="primary" onClick={onClose}>
            I have copied it
          </Button>
        </DialogButtons>
      </div>
    </Dialog>
  )
}
