/** Logo, search, balance and account, on every page. */
import { Link } from '@tanstack/react-router'
import { money } from '../../src/view/money.ts'
import { mayUse, type Me } from '../api/me.ts'
import { useLiveState } from '../api/live.ts'
import { useCall } from '../api/query.ts'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icon.tsx'
import { SkeletonText } from '../ui/skeleton.tsx'
import { AccountMenu } from './account-menu.tsx'
import { Bell } from './bell.tsx'
import { SearchButton } from './search-button.tsx'
import { ThemeButton } from './theme-button.tsx'

interface TopBarProps {
  readonly me: Me
  readonly isMenuOpen: boolean
  readonly onMenu: () => void
}

const notified = ['compute:read', 'billing:read', 'operator'] as const

export function TopBar({ me, isMenuOpen, onMenu }: TopBarProps) {
  return (
    <header className="sticky top-0 z-30 col-span-full flex h-14 min-w-0 items-center gap-1 border-b border-line bg-surface px-3 sm:gap-2 sm:px-4">
      <Button
        look="quiet"
        className="-ml-1 px-2 lg:hidden"
        aria-expanded={isMenuOpen}
        aria-controls="navigation"
        onClick={onMenu}
      >
        <Icon name="menu" />
        <span className="sr-only">Menu</span>
      </Button>
      <Link
        to={mayUse(me, 'operator') ? '/operator' : '/'}
        className="flex items-center gap-2 text-base font-semibold lg:w-56"
      >
        <img src="/favicon.svg" alt="" width="24" height="24" />
        <span className="max-sm:sr-only">Berth</span>
      </Link>
      <SearchButton />
      <ConnectionStatus />
      {mayUse(me, 'billing:read') && <Balance />}
      <div className="flex items-center">
        {notified.some((scope) => mayUse(me, scope)) && <Bell />}
        <a
          href="/docs"
          title="API reference"
          className="flex min-h-9 items-center rounded-md px-2.5 text-muted hover:bg-sunken hover:text-ink max-sm:hidden"
        >
          <Icon name="docs" />
          <span className="sr-only">API reference</span>
        </a>
        <ThemeButton />
      </div>
      <AccountMenu me={me} />
    </header>
  )
}

function Balance() {
  const balance = useCall('getCustomerBalance', {}, { everyMs: 30_000 })
  const value = balance.data === undefined ? <SkeletonText className="w-16" /> : money(balance.data.balanceUsd)
  return (
    <Link to="/billing" className="rounded-md px-2 py-1.5 text-sm whitespace-nowrap text-muted hover:bg-sunken">
      <span className="max-sm:sr-only">Balance </span>
      <span className="font-medium text-ink tabular-nums">{value}</span>
    </Link>
  )
}

function ConnectionStatus() {
  const isLost = useLiveState() === 'lost'
  return (
    <span role="status" className="min-w-0 flex-1 truncate text-sm text-warn">
      {isLost && 'Server unreachable, reconnecting …'}
    </span>
  )
}
