/** The frame of every page: navigation, account and balance. */
import { useMutation } from '@tanstack/react-query'
import { Link, Outlet, useRouter } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { money } from '../../src/view/money.ts'
import { mayUse, signOut, useMe, useSameAccount, type Me } from '../api/me.ts'
import { useLiveEvents, useLiveState } from '../api/live.ts'
import { useCall } from '../api/query.ts'
import { Button } from '../ui/button.tsx'
import { cx } from '../ui/class.ts'
import { SkeletonText } from '../ui/skeleton.tsx'
import { toast } from '../ui/toast.tsx'
import { pages, sections } from '../pages.ts'
import { MoneyBanner } from './banner.tsx'
import { Bell } from './bell.tsx'
import { ThemeButton } from './theme-button.tsx'

export function Shell() {
  const me = useMe()
  const router = useRouter()
  const [isMenuOpen, setMenuOpen] = useState(false)
  const main = useRef<HTMLElement>(null)
  useLiveEvents()
  useSameAccount()
  // On navigation: closes the menu and moves the focus to the page.
  useEffect(
    () =>
      router.subscribe('onResolved', ({ pathChanged, fromLocation }) => {
        if (!pathChanged || fromLocation === undefined) return
        setMenuOpen(false)
        main.current?.focus({ preventScroll: true })
      }),
    [router],
  )
  return (
    <div className="min-h-dvh lg:grid lg:grid-cols-[15rem_1fr]">
      <a
        href="#main"
        className="sr-only z-50 rounded-md bg-accent px-3 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to content
      </a>
      <aside className="border-line bg-surface max-lg:border-b lg:sticky lg:top-0 lg:h-dvh lg:overflow-y-auto lg:border-r">
        <div className="flex h-14 items-center justify-between gap-2 px-4">
          <Link to="/" className="flex items-center gap-2 text-base font-semibold">
            <img src="/favicon.svg" alt="" width="24" height="24" />
            Berth
          </Link>
          <Button
            look="quiet"
            className="lg:hidden"
            aria-expanded={isMenuOpen}
            aria-controls="navigation"
            onClick={() => setMenuOpen(!isMenuOpen)}
          >
            Menu
          </Button>
        </div>
        <nav id="navigation" aria-label="Console" className={cx('px-2 pb-4', !isMenuOpen && 'max-lg:hidden')}>
          <Navigation me={me} />
        </nav>
      </aside>
      <div className="flex min-w-0 flex-col">
        <TopBar me={me} />
        <main id="main" ref={main} tabIndex={-1} className="flex-1 outline-none">
          <Outlet />
        </main>
        {mayUse(me, 'billing:read') && <MoneyBanner />}
      </div>
    </div>
  )
}

function Navigation({ me }: { me: Me }) {
  const visible = pages.filter(({ scopes }) => scopes.some((scope) => mayUse(me, scope)))
  return sections.map((section) => {
    const inSection = visible.filter((page) => page.in === section)
    if (inSection.length === 0) return null
    return (
      <div key={section} className="mt-3 first:mt-0">
        <h2 className="px-2 py-1 text-xs font-semibold text-muted">{section}</h2>
        <ul>
          {inSection.map(({ path, title }) => (
            <li key={path}>
              <Link
                to={path}
                activeOptions={{ exact: ['/', '/supply', '/operator'].includes(path), includeSearch: false }}
                className="block rounded-md px-2 py-1.5 text-sm text-muted hover:bg-sunken hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:font-medium aria-[current=page]:text-ink"
              >
                {title}
              </Link>
            </li>
          ))}
        </ul>
      </div>
    )
  })
}

const notified = ['compute:read', 'billing:read', 'operator'] as const

function TopBar({ me }: { me: Me }) {
  const leave = useMutation({
    mutationFn: signOut,
    onError: () => toast('Could not reach the server, so you are still signed in. Try again.', 'bad'),
  })
  return (
    <header className="flex min-h-14 flex-wrap items-center justify-end gap-x-4 gap-y-1 border-b border-line bg-surface px-4 py-1 sm:px-6">
      <ConnectionStatus />
      {mayUse(me, 'billing:read') && <Balance />}
      <span className="min-w-0 truncate text-sm" title={`${me.email}, key ${me.key.name}`}>
        <span className="sr-only">Signed in to the account </span>
        {me.account.name}
      </span>
      {notified.some((scope) => mayUse(me, scope)) && <Bell />}
      <ThemeButton />
      <Button look="quiet" busy={leave.isPending} onClick={() => leave.mutate()}>
        Sign out
      </Button>
    </header>
  )
}

function Balance() {
  const balance = useCall('getCustomerBalance', {}, { everyMs: 30_000 })
  const value = balance.data === undefined ? <SkeletonText className="w-16" /> : money(balance.data.balanceUsd)
  return (
    <Link to="/billing" className="text-sm text-muted hover:text-ink">
      Balance <span className="font-medium text-ink tabular-nums">{value}</span>
    </Link>
  )
}

function ConnectionStatus() {
  const isLost = useLiveState() === 'lost'
  return (
    <span role="status" className="flex-1 text-sm text-warn">
      {isLost && 'Server unreachable, reconnecting …'}
    </span>
  )
}
