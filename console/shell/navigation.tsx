/** The pages that the key can use, in groups that open and close. */
import { Link } from '@tanstack/react-router'
import { useId } from 'react'
import { isPerson, mayUse, type Me } from '../api/me.ts'
import { sections, type PageRow } from '../page-row.ts'
import { pages } from '../pages.ts'
import { cx } from '../ui/class.ts'
import { Icon } from '../ui/icon.tsx'
import { useStored } from '../ui/stored.ts'

/** Pages below these have entries of their own. */
const exact: readonly string[] = ['/', '/supply', '/operator']

const row =
  'flex items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm text-muted hover:bg-sunken hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:font-medium aria-[current=page]:text-ink'

function sectionsOf(stored: unknown): string[] | undefined {
  return Array.isArray(stored) ? sections.filter((section) => stored.includes(section)) : undefined
}

export function visiblePages(me: Me): readonly PageRow[] {
  const rows: readonly PageRow[] = pages
  return rows.filter(
    ({ scopes, forPeople }) => scopes.some((scope) => mayUse(me, scope)) && (forPeople !== true || isPerson(me)),
  )
}

interface NavigationProps {
  readonly me: Me
  /** Icons only. */
  readonly isNarrow: boolean
  readonly onNarrow: () => void
}

export function Navigation({ me, isNarrow, onNarrow }: NavigationProps) {
  const [closed, setClosed] = useStored('berth.navigation.closed', sectionsOf, [])
  const visible = visiblePages(me)
  const toggle = (section: string): void =>
    setClosed(closed.includes(section) ? closed.filter((one) => one !== section) : [...closed, section])
  return (
    <nav id="navigation" aria-label="Console" className="flex min-h-full flex-col px-2 py-3">
      {orderOf(me).map((section) => (
        <Group
          key={section}
          title={section === 'Home' || isNarrow ? undefined : section}
          rows={visible.filter((page) => page.in === section)}
          isOpen={section === 'Home' || isNarrow || !closed.includes(section)}
          isNarrow={isNarrow}
          onToggle={() => toggle(section)}
        />
      ))}
      <button
        type="button"
        aria-expanded={!isNarrow}
        onClick={onNarrow}
        className={cx(row, 'mt-auto w-full max-lg:hidden')}
      >
        <Icon name="sidebar" />
        <span className={isNarrow ? 'sr-only' : ''}>{isNarrow ? 'Expand navigation' : 'Collapse navigation'}</span>
      </button>
    </nav>
  )
}

/** Operators find their own pages first. */
function orderOf(me: Me): ReadonlyArray<(typeof sections)[number]> {
  if (!mayUse(me, 'operator')) return sections
  return ['Home', 'Operator', ...sections.filter((section) => section !== 'Home' && section !== 'Operator')]
}

interface GroupProps {
  readonly title: string | undefined
  readonly rows: readonly PageRow[]
  readonly isOpen: boolean
  readonly isNarrow: boolean
  readonly onToggle: () => void
}

function Group({ title, rows, isOpen, isNarrow, onToggle }: GroupProps) {
  const id = useId()
  if (rows.length === 0) return null
  return (
    <div className={cx('pb-3', isNarrow && 'border-t border-line pt-2 first:border-t-0 first:pt-0')}>
      {title !== undefined && (
        <h2>
          <button
            type="button"
            aria-expanded={isOpen}
            aria-controls={id}
            onClick={onToggle}
            className="group flex w-full items-center justify-between rounded-md px-2.5 py-1 text-xs font-semibold text-muted hover:text-ink"
          >
            {title}
            <Icon
              name="down"
              className={cx(
                'size-3.5 opacity-60 transition-transform group-hover:opacity-100',
                !isOpen && '-rotate-90',
              )}
            />
          </button>
        </h2>
      )}
      <ul id={id} hidden={!isOpen} className="flex flex-col gap-px">
        {rows.map(({ path, title: name, icon = 'list' }) => (
          <li key={path}>
            <Link
              to={path}
              title={isNarrow ? name : undefined}
              activeOptions={{ exact: exact.includes(path), includeSearch: false }}
              className={row}
            >
              <Icon name={icon} />
              <span className={isNarrow ? 'sr-only' : 'truncate'}>{name}</span>
            </Link>
          </li>
        ))}
      </ul>
    </div>
  )
}
