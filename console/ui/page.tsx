/** The frame of every page. Its title and breadcrumb come from the table of pages unless the page has a name of its own. */
import { Link, useMatches } from '@tanstack/react-router'
import { useEffect, type ReactNode } from 'react'

interface PageProps {
  /** A name of its own, such as a rental's. Default: the title in the table. */
  readonly title?: string
  readonly intro?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}

export function Page({ title: ownTitle, intro, actions, children }: PageProps) {
  const { page, parent } = useMatches({ select: (matches) => matches.at(-1)?.staticData ?? {} })
  const title = ownTitle ?? page?.title ?? 'Berth'
  useEffect(() => {
    document.title = `${title} · Berth`
  }, [title])
  return (
    <div className="mx-auto flex w-full max-w-7xl flex-col gap-5 p-4 sm:p-6">
      <header className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          {parent !== undefined && (
            <nav aria-label="Breadcrumb" className="mb-1 text-sm text-muted">
              <Link to={parent.path} className="hover:text-ink hover:underline">
                {parent.title}
              </Link>
              <span aria-hidden="true"> / </span>
            </nav>
          )}
          <h1 className="text-xl font-semibold break-words">{title}</h1>
          {intro !== undefined && <p className="mt-1 max-w-prose text-sm text-muted">{intro}</p>}
        </div>
        {actions !== undefined && <div className="flex flex-wrap gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  )
}
