/** Opens the search over everything, with a click or with Ctrl-K. Its code is loaded then. */
import { lazy, Suspense, useEffect, useState } from 'react'
import { Icon } from '../ui/icon.tsx'

const SearchDialog = lazy(async () => ({ default: (await import('./search-dialog.tsx')).SearchDialog }))

const isApple = navigator.userAgent.includes('Mac')

export function SearchButton() {
  const [isOpen, setOpen] = useState(false)
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
      // A terminal needs the key itself.
      if (event.target instanceof Element && event.target.closest('.xterm') !== null) return
      // One dialog at a time.
      if (document.querySelector('dialog[open]') !== null) return
      event.preventDefault()
      setOpen(true)
    }
    document.addEventListener('keydown', listen)
    return () => document.removeEventListener('keydown', listen)
  }, [])
  return (
    <>
      <button
        type="button"
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
        className="flex min-h-9 items-center gap-2 rounded-md px-2.5 text-sm text-muted hover:text-ink sm:w-60 sm:border sm:border-line sm:bg-ground"
      >
        <Icon name="search" />
        <span className="flex-1 text-left max-sm:sr-only">Search</span>
        <kbd aria-hidden="true" className="rounded border border-line px-1.5 font-sans text-xs max-sm:hidden">
          {isApple ? '⌘K' : 'Ctrl K'}
        </kbd>
      </button>
      {isOpen && (
        <Suspense>
          <SearchDialog onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}
