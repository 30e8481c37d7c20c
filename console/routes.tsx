/** Routes of the console, from the table of pages. Everything inside the shell requires a session. */
import { createRootRoute, createRoute, createRouter, redirect } from '@tanstack/react-router'
import { localPath } from '../src/domain/local-path.ts'
import { fetchMe, isUnmet, mayUse } from './api/me.ts'
import { isSignedOut } from './api/query.ts'
import { CONFIRMED_PATH } from './api/step-up.ts'
import type { PageRow } from './page-row.ts'
import { pages, parentOf } from './pages.ts'
import { Broken, BrokenPage } from './shell/broken.tsx'
import { oneOf, searchReader, text } from './search.ts'
import { lazyPage } from './shell/lazy-page.tsx'
import { NotFound } from './shell/not-found.tsx'
import { Pending } from './shell/pending.tsx'
import { Shell } from './shell/shell.tsx'

const root = createRootRoute({ notFoundComponent: NotFound, errorComponent: Broken })

/** The page to open after a sign-in. */
const next = (value: unknown): string | undefined =>
  typeof value === 'string' && localPath(value) === value ? value : undefined

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: searchReader({ next, error: text, provider: text, step: oneOf(['code']) }),
  component: lazyPage(async () => (await import('./pages/sign-in/page.tsx')).SignInPage),
})

const invitation = createRoute({
  getParentRoute: () => root,
  path: '/invitations/$id',
  component: lazyPage(async () => (await import('./pages/invitation/page.tsx')).InvitationPage),
})

/** No search parameters: a code in a link is not used. */
const device = createRoute({
  getParentRoute: () => root,
  path: '/device',
  component: lazyPage(async () => (await import('./pages/device/page.tsx')).DevicePage),
})

/** An agent opens it with the parameters of OAuth. */
const authorize = createRoute({
  getParentRoute: () => root,
  path: '/authorize',
  component: lazyPage(async () => (await import('./pages/authorize/page.tsx')).AuthorizePage),
})

const terms = createRoute({
  getParentRoute: () => root,
  path: '/terms',
  component: lazyPage(async () => (await import('./pages/terms/page.tsx')).TermsPage),
})

/** The page of a person whose session may not act in its account. */
const access = createRoute({
  getParentRoute: () => root,
  path: '/access',
  validateSearch: searchReader({ next }),
  component: lazyPage(async () => (await import('./pages/access/page.tsx')).AccessPage),
})

const confirmed = createRoute({
  getParentRoute: () => root,
  path: CONFIRMED_PATH,
  validateSearch: searchReader({ error: text, provider: text }),
  component: lazyPage(async () => (await import('./pages/confirmed/page.tsx')).ConfirmedPage),
})

const shell = createRoute({
  getParentRoute: () => root,
  id: 'shell',
  beforeLoad: async ({ location, cause }) => {
    try {
      const me = await fetchMe()
      // Operators land here; links inside the console still lead to the overview of their own account.
      // eslint-disable-next-line typescript/only-throw-error
      if (cause === 'enter' && location.href === '/' && mayUse(me, 'operator')) throw redirect({ to: '/operator' })
    } catch (error) {
      const search = location.href === '/' ? {} : { next: location.href }
      // TanStack Router redirects by throwing.
      // eslint-disable-next-line typescript/only-throw-error
      if (isUnmet(error)) throw redirect({ to: '/access', search })
      if (!isSignedOut(error)) throw error
      // eslint-disable-next-line typescript/only-throw-error
      throw redirect({ to: '/sign-in', search })
    }
  },
  component: Shell,
  pendingComponent: Pending,
  errorComponent: Broken,
})

/** Addresses of containers in older links. */
const oldRoutes = (['/rentals/containers/$id', '/instances/$id'] as const).map((path) =>
  createRoute({
    getParentRoute: () => shell,
    path,
    beforeLoad: ({ params, search }) => {
      // eslint-disable-next-line typescript/only-throw-error
      throw redirect({ to: '/rentals/$id', params: { id: params.id }, search, replace: true })
    },
  }),
)

function routeOf<Path extends string, Search extends object>(row: PageRow<Path, Search>) {
  return createRoute({
    getParentRoute: () => shell,
    path: row.path,
    validateSearch: row.search,
    component: lazyPage(row.load),
    staticData: { page: row, parent: parentOf(row) },
  })
}

type RoutesOf<Rows extends readonly unknown[]> = {
  readonly [N in keyof Rows]: Rows[N] extends PageRow<infer Path, infer Search extends object>
    ? ReturnType<typeof routeOf<Path, Search>>
    : never
}

// `map` would make one union of all routes, and links would lose their parameters' types.
const routes = pages.map((row) => routeOf(row as PageRow)) as unknown as RoutesOf<typeof pages>

export const router = createRouter({
  routeTree: root.addChildren([
    signIn,
    invitation,
    device,
    authorize,
    terms,
    access,
    confirmed,
    shell.addChildren([...routes, ...oldRoutes]),
  ]),
  defaultPreload: 'intent',
  defaultPreloadStaleTime: 0,
  // Inside the shell, so that the navigation stays usable.
  defaultErrorComponent: BrokenPage,
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
  interface StaticDataRouteOption {
    readonly page?: PageRow
    /** The page that the breadcrumb leads to. */
    readonly parent?: PageRow | undefined
  }
}
