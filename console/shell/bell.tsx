/** The bell: how many notifications are unread, and the newest of them. */
import { useRouter } from '@tanstack/react-router'
import { useEffect, useId, useRef, useState, type ComponentType } from 'react'
import { limits } from '../../src/base/limits.ts'
import { useCall } from '../api/query.ts'
import { toast } from '../ui/toast.tsx'

/** Notifications of operators raise no event. */
const EVERY_MS = 60_000
const SHOWN = 6

export function Bell() {
  const [isOpen, setOpen] = useState(false)
  // The code of the list is loaded when it is first opened.
  const [Latest, setLatest] = useState<ComponentType<{ limit: number }>>()
  const frame = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  const panelId = useId()
  const router = useRouter()
  const list = useCall('listNotifications', { query: { limit: SHOWN } }, { everyMs: EVERY_MS })
  const unread = list.data?.unread ?? 0
  useEffect(() => router.subscribe('onResolved', () => setOpen(false)), [router])
  useEffect(() => {
    if (!isOpen) return undefined
    const leave = (event: PointerEvent): void => {
      if (event.target instanceof Node && frame.current?.contains(event.target) !== true) setOpen(false)
    }
    const escape = (event: KeyboardEvent): void => {
      if (event.key !== 'Escape') return
      setOpen(false)
      button.current?.focus()
    }
    document.addEventListener('pointerdown', leave)
    document.addEventListener('keydown', escape)
    return () => {
      document.removeEventListener('pointerdown', leave)
      document.removeEventListener('keydown', escape)
    }
  }, [isOpen])
  const toggle = (): void => {
    setOpen(!isOpen)
    if (isOpen || Latest !== undefined) return
    import('./latest-notifications.tsx').then(
      ({ LatestNotifications }) => setLatest(() => LatestNotifications),
      () => toast('Could not reach the server. Try again.', 'bad'),
    )
  }
  return (
    <div ref={frame} className="relative">
      <button
        ref={button}
        type="button"
        aria-expanded={isOpen}
        aria-controls={panelId}
        aria-label={unread === 0 ? 'Notifications' : `Notifications, ${countOf(unread)} unread`}
        className="relative inline-flex size-9 items-center justify-center rounded-md text-muted hover:bg-sunken hover:text-ink"
        onClick={toggle}
      >
        <BellIcon />
        {unread > 0 && (
          <span
            aria-hidden="true"
            className="absolute top-0 right-0 min-w-4 rounded-full bg-bad px-1 text-center text-xs leading-4 font-medium text-on-accent"
          >
            {countOf(unread)}
          </span>
        )}
      </button>
      <div
        id={panelId}
        role="region"
        aria-label="Latest notifications"
        hidden={!isOpen}
        className="absolute right-0 z-30 mt-1 w-80 max-w-[calc(100vw-2rem)] rounded-md border border-line bg-surface p-3 shadow-lg"
      >
        {isOpen && Latest !== undefined && <Latest limit={SHOWN} />}
      </div>
    </div>
  )
}

function countOf(unread: number): string {
  return unread >= limits.unreadNotifications ? `${limits.unreadNotifications - 1}+` : String(unread)
}

function BellIcon() {
  return (
    <svg
      viewBox="0 0 24 24"
      width="20"
      height="20"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d="M18 8a6 6 0 1 0-12 0c0 7-3 8-3 8h18s-3-1-3-8" />
      <path d="M10.5 20a1.8 1.8 0 0 0 3 0" />
    </svg>
  )
}
