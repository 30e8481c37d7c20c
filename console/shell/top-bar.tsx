/** Logo, search, balance and account, on every page. */
import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { money } from '../../src/view/money.ts'
import { mayUse, signOut, type Me } from '../api/me.ts'
import { useLiveState } from '../api/live.ts'
import { useCall } from '../api/query.ts'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icon.tsx'
import { Menu, menuRow } from '../ui/menu.tsx'
import { SkeletonText } from '../ui/skeleton.tsx'
import { toast } from '../ui/toast.tsx'
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

function AccountMenu({ me }: { me: Me }) {
  const leave = useMutation({
    mutationFn: signOut,
    onError: () => toast('Could not reach the server, so you are still signed in. Try again.', 'bad'),
  })
  const links = [
    { to: '/billing', label: 'Billing', icon: 'card', scope: 'billing:read' },
    { to: '/keys', label: 'API keys', icon: 'key', scope: 'keys' },
    { to: '/members', label: 'Members', icon: 'users', scope: 'keys' },
  ] as const
  return (
    <Menu
      button={
        <>
          <span
            aria-hidden="true"
            className="flex size-7 shrink-0 items-center justify-center rounded-full bg-accent-soft text-xs font-semibold text-ink uppercase"
          >
            {me.account.name.slice(0, 1)}
          </span>
          <span className="max-w-40 truncate font-medium max-sm:sr-only">
            <span className="sr-only">Signed in to the account </span>
            {me.account.name}
          </span>
          <Icon name="down" className="size-3.5 text-muted" />
        </>
      }
    >
      <div className="border-b border-line px-2 pt-1 pb-2 text-sm">
        <p className="truncate font-medium">{me.account.name}</p>
        <p className="truncate text-muted">{me.email}</p>
        <p className="truncate text-xs text-muted">Key: {me.key.name}</p>
      </div>
      <ul className="border-b border-line py-1">
        {links
          .filter(({ scope }) => mayUse(me, scope))
          .map(({ to, label, icon }) => (
            <li key={to}>
              <Link to={to} className={menuRow}>
                <Icon name={icon} className="text-muted" />
                {label}
              </Link>
            </li>
          ))}
        <li>
          <Link to="/tour" className={menuRow}>
            <Icon name="sparkle" className="text-muted" />
            Tour
          </Link>
        </li>
        <li>
          <a href="/docs" className={menuRow}>
            <Icon name="docs" className="text-muted" />
            API reference
          </a>
        </li>
      </ul>
      <button type="button" disabled={leave.isPending} onClick={() => leave.mutate()} className={`${menuRow} mt-1`}>
        <Icon name="exit" className="text-muted" />
        Sign out
      </button>
    </Menu>
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
