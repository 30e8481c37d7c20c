/** The button with the account. What is behind it is loaded when it is opened. */
import { lazy, Suspense } from 'react'
import { isPerson, usePerson, type Me } from '../api/me.ts'
import { Icon } from '../ui/icon.tsx'
import { Menu } from '../ui/menu.tsx'

const AccountPanel = lazy(async () => ({ default: (await import('./account-panel.tsx')).AccountPanel }))

export function AccountMenu({ me }: { me: Me }) {
  const person = usePerson(isPerson(me)).data
  const offers = person?.offers ?? []
  return (
    <Menu
      button={
        <>
          <span
            aria-hidden="true"
            className="relative flex size-7 shrink-0 items-center justify-center rounded-full bg-accent-soft text-xs font-semibold text-ink uppercase"
          >
            {me.account.name.slice(0, 1)}
            {offers.length > 0 && (
              <span className="absolute -top-0.5 -right-0.5 size-2.5 rounded-full border-2 border-surface bg-accent" />
            )}
          </span>
          <span className="max-w-40 truncate font-medium max-sm:sr-only">
            <span className="sr-only">Signed in to the account </span>
            {me.account.name}
            {offers.length > 0 && <span className="sr-only">, {offers.length} open invitations</span>}
          </span>
          <Icon name="down" className="size-3.5 text-muted" />
        </>
      }
    >
      <Suspense fallback={<div className="h-56" />}>
        <AccountPanel me={me} person={person} />
      </Suspense>
    </Menu>
  )
}
