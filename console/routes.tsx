/**
 * The whole site map. A page is one file, loaded when it is first opened; what stands in its address is parsed by the
 * schema beside it. Everything inside the shell needs somebody who is signed in.
 */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router'
import { z } from 'zod'
import { fetchMe } from './api/me.ts'
import { isSignedOut } from './api/query.ts'
import { accountsSearch } from './pages/accounts-search.ts'
import { auditSearch } from './pages/audit-search.ts'
import { billingSearch } from './pages/billing-search.ts'
import { eventsSearch } from './pages/events-search.ts'
import { fleetSearch } from './pages/fleet-search.ts'
import { marketplaceSearch } from './pages/marketplace-search.ts'
import { playgroundSearch } from './pages/playground-search.ts'
import { rentSearch } from './pages/rent-search.ts'
import { rentalSearch } from './pages/rental-search.ts'
import { rentalsSearch } from './pages/rentals-search.ts'
import { requestsSearch } from './pages/requests-search.ts'
import { usageSearch } from './pages/usage-search.ts'
import { Broken } from './shell/broken.tsx'
import { NotFound } from './shell/not-found.tsx'
import { Pending } from './shell/pending.tsx'
import { Shell } from './shell/shell.tsx'

const root = createRootRoute({ notFoundComponent: NotFound, errorComponent: Broken })

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: z.object({ next: z.string().startsWith('/').optional().catch(undefined) }),
  component: lazyRouteComponent(() => import('./pages/sign-in.tsx'), 'SignInPage'),
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
    component: lazyRouteComponent(() => import('./pages/overview.tsx'), 'OverviewPage'),
  }),
  createRoute({
    ...within,
    path: '/tour',
    component: lazyRouteComponent(() => import('./pages/tour.tsx'), 'TourPage'),
  }),
  createRoute({
    ...within,
    path: '/marketplace',
    validateSearch: marketplaceSearch,
    component: lazyRouteComponent(() => import('./pages/marketplace.tsx'), 'MarketplacePage'),
  }),
  createRoute({
    ...within,
    path: '/rent',
    validateSearch: rentSearch,
    component: lazyRouteComponent(() => import('./pages/rent.tsx'), 'RentPage'),
  }),
  createRoute({
    ...within,
    path: '/rentals',
    validateSearch: rentalsSearch,
    component: lazyRouteComponent(() => import('./pages/rentals.tsx'), 'RentalsPage'),
  }),
  createRoute({
    ...within,
    path: '/rentals/$id',
    validateSearch: rentalSearch,
    component: lazyRouteComponent(() => import('./pages/rental.tsx'), 'RentalPage'),
  }),
  createRoute({
    ...within,
    path: '/rentals/containers/$id',
    validateSearch: rentalSearch,
    component: lazyRouteComponent(() => import('./pages/instance.tsx'), 'InstancePage'),
  }),
  createRoute({
    ...within,
    path: '/volumes',
    component: lazyRouteComponent(() => import('./pages/volumes.tsx'), 'VolumesPage'),
  }),
  createRoute({
    ...within,
    path: '/events',
    validateSearch: eventsSearch,
    component: lazyRouteComponent(() => import('./pages/events.tsx'), 'EventsPage'),
  }),
] as const

const models = [
  createRoute({
    ...within,
    path: '/chat',
    validateSearch: playgroundSearch,
    component: lazyRouteComponent(() => import('./pages/chat.tsx'), 'ChatPage'),
  }),
  createRoute({
    ...within,
    path: '/pictures',
    validateSearch: playgroundSearch,
    component: lazyRouteComponent(() => import('./pages/pictures.tsx'), 'PicturesPage'),
  }),
  createRoute({
    ...within,
    path: '/speech',
    validateSearch: playgroundSearch,
    component: lazyRouteComponent(() => import('./pages/speech.tsx'), 'SpeechPage'),
  }),
  createRoute({
    ...within,
    path: '/requests',
    validateSearch: requestsSearch,
    component: lazyRouteComponent(() => import('./pages/requests.tsx'), 'RequestsPage'),
  }),
] as const

const account = [
  createRoute({
    ...within,
    path: '/usage',
    validateSearch: usageSearch,
    component: lazyRouteComponent(() => import('./pages/usage.tsx'), 'UsagePage'),
  }),
  createRoute({
    ...within,
    path: '/billing',
    validateSearch: billingSearch,
    component: lazyRouteComponent(() => import('./pages/billing.tsx'), 'BillingPage'),
  }),
  createRoute({
    ...within,
    path: '/keys',
    component: lazyRouteComponent(() => import('./pages/keys.tsx'), 'KeysPage'),
  }),
  createRoute({
    ...within,
    path: '/ssh-keys',
    component: lazyRouteComponent(() => import('./pages/ssh-keys.tsx'), 'SshKeysPage'),
  }),
  createRoute({
    ...within,
    path: '/webhooks',
    component: lazyRouteComponent(() => import('./pages/webhooks.tsx'), 'WebhooksPage'),
  }),
  createRoute({
    ...within,
    path: '/webhooks/$id',
    component: lazyRouteComponent(() => import('./pages/webhook.tsx'), 'WebhookPage'),
  }),
  createRoute({
    ...within,
    path: '/members',
    component: lazyRouteComponent(() => import('./pages/members.tsx'), 'MembersPage'),
  }),
] as const

const supply = [
  createRoute({
    ...within,
    path: '/supply',
    component: lazyRouteComponent(() => import('./pages/supply.tsx'), 'SupplyPage'),
  }),
  createRoute({
    ...within,
    path: '/supply/join',
    component: lazyRouteComponent(() => import('./pages/join.tsx'), 'JoinPage'),
  }),
  createRoute({
    ...within,
    path: '/supply/earnings',
    component: lazyRouteComponent(() => import('./pages/earnings.tsx'), 'EarningsPage'),
  }),
] as const

const operator = [
  createRoute({
    ...within,
    path: '/operator',
    component: lazyRouteComponent(() => import('./pages/traffic.tsx'), 'TrafficPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/accounts',
    validateSearch: accountsSearch,
    component: lazyRouteComponent(() => import('./pages/accounts.tsx'), 'AccountsPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/accounts/$id',
    component: lazyRouteComponent(() => import('./pages/account.tsx'), 'AccountPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/prices',
    component: lazyRouteComponent(() => import('./pages/prices.tsx'), 'PricesPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/models',
    component: lazyRouteComponent(() => import('./pages/models.tsx'), 'ModelsPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/fleet',
    validateSearch: fleetSearch,
    component: lazyRouteComponent(() => import('./pages/fleet.tsx'), 'FleetPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/audit',
    validateSearch: auditSearch,
    component: lazyRouteComponent(() => import('./pages/audit.tsx'), 'AuditPage'),
  }),
  createRoute({
    ...within,
    path: '/operator/ledger',
    component: lazyRouteComponent(() => import('./pages/ledger.tsx'), 'LedgerPage'),
  }),
] as const

export const router = createRouter({
  routeTree: root.addChildren([
    signIn,
    shell.addChildren([...customer, ...models, ...account, ...supply, ...operator]),
  ]),
  defaultPreload: 'intent',
  defaultPreloadStaleTime: 0,
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
