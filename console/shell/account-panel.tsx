/** Who is signed in, the accounts they can act in, what is offered to them, and the way out. */
import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Reply } from '../../src/client/client.ts'
import { roleLabels } from '../../src/view/account.ts'
import { isPerson, mayUse, noteNewSession, signOut, type Me } from '../api/me.ts'
import { useAction } from '../api/query.ts'
import { Icon } from '../ui/icon.tsx'
import { menuRow } from '../ui/menu.tsx'
import { toast } from '../ui/toast.tsx'

type Person = Reply<'getPerson'>

const links = [
  { to: '/billing', label: 'Billing', icon: 'card', scope: 'billing:read' },
  { to: '/keys', label: 'API keys', icon: 'key', scope: 'keys' },
  { to: '/members', label: 'Members', icon: 'users', scope: 'keys' },
] as const

export function AccountPanel({ me, person }: { me: Me; person: Person | undefined }) {
  const { accounts = [], offers = [] } = person ?? {}
  return (
    <>
      <Head me={me} />
      {accounts.length > 1 && <Accounts accounts={accounts} />}
      {offers.length > 0 && <Offers offers={offers} />}
      <Pages me={me} />
      <SignOut />
    </>
  )
}

function Head({ me }: { me: Me }) {
  return (
    <div className="border-b border-line px-2 pt-1 pb-2 text-sm">
      <p className="truncate font-medium">{isPerson(me) ? (me.name ?? me.email) : me.account.name}</p>
      {(!isPerson(me) || me.name !== null) && <p className="truncate text-muted">{me.email}</p>}
      {!isPerson(me) && <p className="truncate text-xs text-muted">Key: {me.key.name}</p>}
      {isPerson(me) && (
        <p className="truncate text-xs text-muted">
          {roleLabels[me.role]} of {me.account.name}
        </p>
      )}
    </div>
  )
}

function Accounts({ accounts }: Pick<Person, 'accounts'>) {
  const change = useAction('switchAccount')
  const choose = (accountId: string): void =>
    change.mutate(
      { body: { accountId } },
      {
        onSuccess: () => {
          noteNewSession()
          // The whole page: nothing of another account stays.
          location.assign('/')
        },
        onError: (error) => toast(error.message, 'bad'),
      },
    )
  return (
    <div className="border-b border-line py-1">
      <h2 className="px-2 py-1 text-xs font-semibold text-muted">Accounts</h2>
      <ul className="max-h-60 overflow-y-auto">
        {accounts.map(({ accountId, accountName, role, isCurrent, suspended }) => (
          <li key={accountId}>
            <button
              type="button"
              className={menuRow}
              aria-current={isCurrent}
              disabled={change.isPending || isCurrent}
              onClick={() => choose(accountId)}
            >
              <span className="flex w-4 shrink-0 justify-center">{isCurrent && <Icon name="check" />}</span>
              <span className="min-w-0 flex-1 truncate">{accountName}</span>
              <span className="text-xs text-muted">{suspended ? 'Suspended' : roleLabels[role]}</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  )
}

function Offers({ offers }: Pick<Person, 'offers'>) {
  return (
    <div className="border-b border-line py-1">
      <h2 className="px-2 py-1 text-xs font-semibold text-muted">Invitations</h2>
      <ul>
        {offers.map(({ id, accountName }) => (
          <li key={id}>
            <Link to="/invitations/$id" params={{ id }} className={menuRow}>
              <Icon name="mail" className="text-muted" />
              <span className="min-w-0 flex-1 truncate">
                {accountName === null ? 'Open an account' : `Join ${accountName}`}
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </div>
  )
}

function Pages({ me }: { me: Me }) {
  return (
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
      {isPerson(me) && (
        <li>
          <Link to="/security" className={menuRow}>
            <Icon name="shield" className="text-muted" />
            Security
          </Link>
        </li>
      )}
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
  )
}

function SignOut() {
  const leave = useMutation({
    mutationFn: () => signOut(),
    onError: () => toast('Could not reach the server, so you are still signed in. Try again.', 'bad'),
  })
  return (
    <button type="button" disabled={leave.isPending} onClick={() => leave.mutate()} className={`${menuRow} mt-1`}>
      <Icon name="exit" className="text-muted" />
      Sign out
    </button>
  )
}
