/** The frame of every page: the bar at the top, the navigation, and the page itself. */
import { Outlet, useRouter } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { mayUse, useMe, useSameAccount } from '../api/me.ts'
import { useLiveEvents } from '../api/live.ts'
import { noteCostPage } from '../api/seen-cost.ts'
import { cx } from '../ui/class.ts'
import { flag } from '../search.ts'
import { useStored } from '../ui/stored.ts'
import { MoneyBanner } from './banner.tsx'
import { Navigation } from './navigation.tsx'
import { TopBar } from './top-bar.tsx'

export function Shell() {
  const me = useMe()
  const accountId = me.account.id
  const router = useRouter()
  const [isMenuOpen, setMenuOpen] = useState(false)
  /** Icons only; on wide screens. */
  const [isNarrow, setNarrow] = useStored('berth.navigation.narrow', flag, false)
  const main = useRef<HTMLElement>(null)
  useLiveEvents()
  useSameAccount()
  // After a navigation, the menu closes and the focus moves to the page.
  useEffect(
    () =>
      router.subscribe('onResolved', ({ pathChanged, fromLocation, toLocation }) => {
        void noteCostPage(toLocation.pathname, accountId)
        if (!pathChanged || fromLocation === undefined) return
        setMenuOpen(false)
        main.current?.focus({ preventScroll: true })
      }),
    [router, accountId],
  )
  return (
    <div className="grid min-h-dvh grid-cols-1 grid-rows-[auto_1fr] lg:grid-cols-[auto_minmax(0,1fr)]">
      <a
        href="#main"
        className="sr-only z-50 rounded-md bg-accent px-3 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to content
      </a>
      <TopBar me={me} isMenuOpen={isMenuOpen} onMenu={() => setMenuOpen(!isMenuOpen)} />
      <aside
        className={cx(
          'overflow-y-auto border-line bg-surface max-lg:fixed max-lg:inset-x-0 max-lg:top-14 max-lg:bottom-0 max-lg:z-20',
          'lg:sticky lg:top-14 lg:h-[calc(100dvh-3.5rem)] lg:border-r',
          isNarrow ? 'lg:w-14' : 'lg:w-60',
          !isMenuOpen && 'max-lg:hidden',
        )}
      >
        <Navigation me={me} isNarrow={isNarrow && !isMenuOpen} onNarrow={() => setNarrow(!isNarrow)} />
      </aside>
      <div className="flex min-w-0 flex-col">
        <main id="main" ref={main} tabIndex={-1} className="flex-1 outline-none">
          <Outlet />
        </main>
        {mayUse(me, 'billing:read') && <MoneyBanner />}
      </div>
    </div>
  )
}
