/** A button that opens a small panel in the corner below it, whose content is there from the first opening on. The browser closes it on Escape and on a click elsewhere. */
import { useId, useRef, useState, type ReactNode } from 'react'
import { cx } from './class.ts'

interface MenuProps {
  /** The content of the button, and its name. */
  readonly button: ReactNode
  readonly className?: string
  readonly children: ReactNode
}

export function Menu({ button, className, children }: MenuProps) {
  const id = useId()
  const panel = useRef<HTMLDivElement>(null)
  const [wasOpen, setWasOpen] = useState(false)
  return (
    <>
      <button
        type="button"
        popoverTarget={id}
        className={cx('flex min-h-9 items-center gap-2 rounded-md px-2 text-sm hover:bg-sunken', className)}
      >
        {button}
      </button>
      {/* A click inside chooses something, which closes it. */}
      {/* oxlint-disable-next-line jsx-a11y/no-static-element-interactions, jsx-a11y/click-events-have-key-events */}
      <div
        id={id}
        ref={panel}
        popover="auto"
        onToggle={() => setWasOpen(true)}
        onClick={() => panel.current?.hidePopover()}
        className="fixed inset-auto top-13 right-3 m-0 w-72 max-w-[calc(100vw-1.5rem)] rounded-lg border border-line bg-surface p-2 text-ink shadow-raised"
      >
        {wasOpen && children}
      </div>
    </>
  )
}

/** The look of a row in a menu. */
export const menuRow =
  'flex w-full items-center gap-2.5 rounded-md px-2 py-1.5 text-left text-sm hover:bg-sunken aria-[current=page]:font-medium'
