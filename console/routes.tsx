/**
 * The whole site map. A page is one file, loaded when it is first opened; what stands in its address is parsed by the
 * schema beside it. Everything inside the shell needs somebody who is signed in.
 */
import { createRootRoute, createRoute, createRouter, redirect } from '@tanstack/react-router'
import { z } from 'zod'
import { fetchMe } from './api/me.ts'
import { isSignedOut } from './api/query.ts'
import { accountsSearch } from './pages/accounts/search.ts'
import { auditSearch } from './pages/audit/search.ts'
import { billingSearch } from './pages/billing/search.ts'
import { eventsSearch } from './pages/events/search.ts'
import { fleetSearch } from './pages/fleet/search.ts'
import { marketplaceSearch } from './pages/marketplace/search.ts'
import { playgroundSearch } from './pages/playground/search.ts'
import { rentSearch } from './pages/rent/search.ts'
import { rentalSearch } from './pages/rental/search.ts'
import { rentalsSearch } from './pages/rentals/search.ts'
import { requestsSearch } from './pages/requests/search.ts'
import { usageSearch } from './pages/usage/search.ts'
import { Broken, BrokenPage } from './shell/broken.tsx'
import { lazyPage } from './shell/lazy-page.tsx'
import { NotFound } from './shell/not-found.tsx'
import { Pending } from './shell/pending.tsx'
import { Shell } from './shell/shell.tsx'

const root = createRootRoute({ notFoundComponent: NotFound, errorComponent: Broken })

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: z.object({ next: z.string().startsWith('/').optional().catch(undefined) }),
  component: lazyPage(() => import('./pages/sign-in/page.tsx'), 'SignInPage'),
})

const shell = createRoute({
  getParentRoute: () => root,
  id: 'shell',
  beforeLoad: async ({ location }) => {
    try {
      await fetchMe()
    } catch (error) {
      if (!isSignedOut(error)) throw error
      // The router's way to go elsewhere.
      // eslint-disable-next-line typescript/only-throw-error
      throw redirect({ to: '/sign-in', search: location.href === '/' ? {} : { next: location.href } })
    }
  },
  component: Shell,
  pendingComponent: Pending,
  errorComponent: Broken,
})

const within = { getParentRoute: () => shell } as const

const customer = [
  createRoute({
    ...within,
    path: '/',
    component: lazyPage(() => import('./pages/overview/page.tsx'), 'OverviewPage'),
  }),
  createRoute({
    ...within,
    path: '/tour',
    component: lazyPage(() => import('./pages/tour/page.tsx'), 'TourPage'),
  }),
  createRoute({
    ...within,
    path: '/marketplace',
    validateSearch: marketplaceSearch,
    component: lazyPage(() => import('./pages/marketplace/page.tsx'), 'MarketplacePage'),
  }),
  createRoute({
    ...within,
    path: '/rent',
    validateSearch: rentSearch,
    component: lazyPage(() => import('./pages/rent/page.tsx'), 'RentPage'),
  }),
  createRoute({
    ...within,
    path: '/rentals',
    validateSearch: rentalsSearch,
    component: lazyPage(() => import('./pages/rentals/page.tsx'), 'RentalsPage'),
  }),
  createRoute({
    ...within,
    path: '/rentals/$id',
    validateSearch: rentalSearch,
    component: lazyPage(() => import('./pages/rental/page.tsx'), 'RentalPage'),
  }),
  createRoute({
    ...within,
    path: '/rentals/containers/$id',
    validateSearch: rentalSearch,
    component: lazyPage(() => import('./pages/instance/page.tsx'), 'InstancePage'),
  }),
  createRoute({
    ...within,
    path: '/volumes',
    component: lazyPage(() => import('./pages/volumes/page.tsx'), 'VolumesPage'),
  }),
  createRoute({
    ...within,
    path: '/events',
    validateSearch: eventsSearch,
    component: lazyPage(() => import('./pages/events/page.tsx'), 'EventsPage'),
  }),
] as const

const models = [
  createRoute({
    ...within,
    path: '/chat',
    validateSearch: playgroundSearch,
    component: lazyPage(() => import('./pages/chat/page.tsx'), 'ChatPage'),
  }),
  createRoute({
    ...within,
    path: '/pictures',
    validateSearch: playgroundSearch,
    component: lazyPage(() => import('./pages/images/page.tsx'), 'PicturesPage'),
  }),
  createRoute({
    ...within,
    path: '/speech',
    validateSearch: playgroundSearch,
    component: lazyPage(() => import('./pages/speech/page.tsx'), 'SpeechPage'),
  }),
  createRoute({
    ...within,
    path: '/requests',
    validateSearch: requestsSearch,
    component: lazyPage(() => import('./pages/requests/page.tsx'), 'RequestsPage'),
  }),
] as const

const account = [
  createRoute({
    ...within,
    path: '/usage',
    validateSearch: usageSearch,
    component: lazyPage(() => import('./pages/usage/page.tsx'), 'UsagePage'),
  }),
  createRoute({
    ...within,
    path: '/billing',
    validateSearch: billingSearch,
    component: lazyPage(() => import('./pages/billing/page.tsx'), 'BillingPage'),
  }),
  createRoute({
    ...within,
    path: '/keys',
    component: lazyPage(() => import('./pages/keys/page.tsx'), 'KeysPage'),
  }),
  createRoute({
    ...within,
    path: '/ssh-keys',
    component: lazyPage(() => import('./pages/ssh-keys/page.tsx'), 'SshKeysPage'),
  }),
  createRoute({
    ...within,
    path: '/webhooks',
    component: lazyPage(() => import('./pages/webhooks/page.tsx'), 'WebhooksPage'),
  }),
  createRoute({
    ...within,
    path: '/webhooks/$id',
    component: lazyPage(() => import('./pages/webhook/page.tsx'), 'WebhookPage'),
  }),
  createRoute({
    ...within,
    path: '/members',
    component: lazyPage(() => import('./pages/members/page.tsx'), 'MembersPage'),
  }),
] as const

const supply = [
  createRoute({
    ...within,
    path: '/supply',
    component: lazyPage(() => import('./pages/supply/page.tsx'), 'SupplyPage'),
  }),
  createRoute({
    ...within,
    path: '/supply/join',
    component: lazyPage(() => import('./pages/join/page.tsx'), 'JoinPage'),
  }),
  createRoute({
    ...within,
    path: '/supply/earnings',
    component: lazyPage(() => import('./pages/earnings/page.tsx'), 'EarningsPage'),
  }),
] as const

const operator = [
  createRoute({
    ...within,
    path: '/operator',
    component: lazyPage(() => import('./pages/traffic/page.tsx'), 'TrafficPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/accounts',
    validateSearch: accountsSearch,
    component: lazyPage(() => import('./pages/accounts/page.tsx'), 'AccountsPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/accounts/$id',
    component: lazyPage(() => import('./pages/account/page.tsx'), 'AccountPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/prices',
    component: lazyPage(() => import('./pages/prices/page.tsx'), 'PricesPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/models',
    component: lazyPage(() => import('./pages/models/page.tsx'), 'ModelsPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/fleet',
    validateSearch: fleetSearch,
    component: lazyPage(() => import('./pages/fleet/page.tsx'), 'FleetPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/audit',
    validateSearch: auditSearch,
    component: lazyPage(() => import('./pages/audit/page.tsx'), 'AuditPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/ledger',
    component: lazyPage(() => import('./pages/ledger/page.tsx'), 'LedgerPage'),
  }),
] as const

export const router = createRouter({
  routeTree: root.addChildren([
    signIn,
    shell.addChildren([...customer, ...models, ...account, ...supply, ...operator]),
  ]),
  defaultPreload: 'intent',
  defaultPreloadStaleTime: 0,
  // Inside the shell: the navigation stays, so that there is a way on.
  defaultErrorComponent: BrokenPage,
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
